/* Opens an adapter, and finds the modules of the model that it is for. */
#include "adapter/adapter_impl.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* --- opening ------------------------------------------------------------------------------------------------------ */

static ls_status open_weights(const char *folder, ls_st_file **out) {
    static const char *const names[] = {LS_ADAPTER_WEIGHTS, "model.safetensors"};
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        LS_PATH path = NULL;
        LS_TRY(ls_path_join(folder, names[i], &path));
        if (ls_file_exists(path)) return ls_st_open(path, out);
    }
    return ls_error(LS_IO, "%s/%s: No such file", folder, LS_ADAPTER_WEIGHTS);
}

static ls_status open_folder(const char *folder, ls_adapter *a) {
    LS_TRY(ls_adapter_read_config(folder, a));
    return open_weights(folder, &a->file);
}

ls_status ls_adapter_open(const ls_adapter_choice *choice, ls_adapter **out) {
    if (choice->folder != NULL && choice->lora != NULL)
        return ls_error(LS_USAGE, "--adapter %s and --lora %s are both given; expected one of them", choice->folder,
                        choice->lora);
    ls_arena *arena = ls_arena_create();
    ls_adapter *a = LS_NEW(arena, ls_adapter);
    a->arena = arena;
    const ls_status status =
        choice->folder != NULL ? open_folder(choice->folder, a) : ls_adapter_parse(choice->lora, a);
    if (status.code == LS_OK)
        *out = a;
    else
        ls_adapter_close(a);
    return status;
}

void ls_adapter_close(ls_adapter *a) {
    if (a == NULL) return;
    ls_st_close(a->file);
    ls_arena_destroy(a->arena);
}

void ls_adapter_score(ls_adapter *a, const char *head) { a->scoring = ls_arena_strdup(a->arena, head); }

bool ls_adapter_holds(const ls_adapter *a, const char *parameter) {
    for (int64_t i = 0; a->file != NULL && i < ls_st_count(a->file); i++)
        if (strcmp(ls_adapter_plain_name(a->arena, ls_st_at(a->file, i)->name), parameter) == 0) return true;
    return false;
}

/* --- the modules of a graph --------------------------------------------------------------------------------------- */

/* A matrix of the graph that is read by a product or a lookup. */
typedef struct use {
    const char *module;
    bool product, table, head; /* head: the product makes the logits */
    bool transposed;
} use;

typedef struct uses {
    ls_arena *arena;
    use *list;
    int n;
    size_t room;
} uses;

/* The MODULE of a parameter MODULE.weight; NULL: the parameter has another name. */
static const char *owner_of(ls_arena *arena, const ls_tensor_info *info) {
    static const char end[] = ".weight";
    const size_t length = strlen(info->name), n = sizeof end - 1;
    if (info->role != LS_ROLE_PARAMETER || info->shape.ndim != 2) return NULL;
    if (length <= n || strcmp(info->name + length - n, end) != 0) return NULL;
    return ls_arena_printf(arena, "%.*s", (int)(length - n), info->name);
}

static use *use_of(uses *u, const char *module) {
    for (int i = 0; i < u->n; i++)
        if (strcmp(u->list[i].module, module) == 0) return &u->list[i];
    use *made = LS_PUSH(u->arena, u->list, u->n, u->room);
    made->module = module;
    return made;
}

static const ls_node *head_of(const ls_graph *g, ls_tensor logits) {
    const ls_node *node = ls_graph_producer(g, logits);
    while (node != NULL && node->op != &ls_op_linear && node->n_in > 0) node = ls_graph_producer(g, node->in[0]);
    return node;
}

/* Whether the product is x W and not x Wᵀ, that is, whether it sums over the first dimension of the weight. */
static bool is_transposed(const ls_graph *g, const ls_node *node) {
    ls_node_dims dims;
    ls_node_dims_find(g, node, &dims);
    const ls_tensor_dims *x = &dims.in[0], *w = &dims.in[1];
    const int last = ls_graph_tensor(g, node->in[0])->shape.ndim - 1;
    return w->dim[0].letter[0] == x->dim[last].letter[0];
}

static void find_uses(const ls_graph *g, ls_tensor logits, uses *out) {
    const ls_node *head = head_of(g, logits);
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_node *node = &g->nodes[n];
        const bool product = node->op == &ls_op_linear, table = node->op == &ls_op_embedding;
        const char *module = product || table ? owner_of(out->arena, ls_graph_tensor(g, node->in[1])) : NULL;
        if (module == NULL) continue;
        use *u = use_of(out, module);
        u->product |= product;
        u->table |= table;
        u->head |= node == head;
        u->transposed |= product && is_transposed(g, node);
    }
}

/* --- what gets an adapter ----------------------------------------------------------------------------------------- */

typedef struct resolving {
    ls_adapter *a;
    const ls_graph *g;
    uses uses;
    const ls_weight_copy *copies;
    int n_copies;
} resolving;

/* A pattern matches a whole name, or the end of a name after a dot. */
static bool is_meant(const char *pattern, const char *name) {
    if (fnmatch(pattern, name, 0) == 0) return true;
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.'))
        if (fnmatch(pattern, dot + 1, 0) == 0) return true;
    return false;
}

static ls_status tied_error(const resolving *r, const char *module) {
    const char *other = NULL;
    for (int i = 0; i < r->n_copies; i++)
        if (strncmp(r->copies[i].original, module, strlen(module)) == 0) other = r->copies[i].copy;
    return ls_error(LS_UNSUPPORTED,
                    "%s: %s is tied%s%s: one matrix is the table of tokens and the head, and an adapter would change "
                    "one of the two; expected other modules",
                    r->a->source, module, other != NULL ? " to " : "", other != NULL ? other : "");
}

/* The error for a pattern without a match, also if the pattern is the second name of a tied matrix. */
static ls_status no_match(const resolving *r, const char *key, const char *pattern) {
    const char *nearest = "";
    int least = INT32_MAX;
    for (int i = 0; i < r->n_copies; i++) {
        char module[256];
        snprintf(module, sizeof module, "%.*s", (int)strcspn(r->copies[i].copy, "."), r->copies[i].copy);
        if (is_meant(pattern, module)) {
            snprintf(module, sizeof module, "%.*s", (int)(strlen(r->copies[i].original) - strlen(".weight")),
                     r->copies[i].original);
            return tied_error(r, module);
        }
    }
    for (int i = 0; i < r->uses.n; i++) {
        const char *module = r->uses.list[i].module, *dot = strrchr(module, '.');
        const int whole = ls_edit_distance(pattern, strlen(pattern), module);
        const int end = dot != NULL ? ls_edit_distance(pattern, strlen(pattern), dot + 1) : whole;
        if (ls_min(whole, end) < least) nearest = module;
        least = (int)ls_min(least, ls_min(whole, end));
    }
    return ls_error(LS_USAGE, "--lora: %s=%s matches no module; the nearest name is %s (* stands for any characters)",
                    key, pattern, nearest);
}

static void add_module(resolving *r, const use *u, int64_t rank) {
    ls_adapter *a = r->a;
    *LS_PUSH(a->arena, a->modules, a->n_modules, a->modules_room) =
        (ls_adapted){.name = u->module,
                     .r = rank,
                     .scaling = ls_adapter_scaling(a, u->module, rank),
                     .table = u->table,
                     .transposed = u->transposed};
}

static ls_status check_use(const resolving *r, const use *u) {
    if (u->table && u->product) return tied_error(r, u->module);
    if (u->table && r->a->dora)
        return ls_error(LS_UNSUPPORTED, "%s: DoRA of the table %s; expected LoRA, or other modules", r->a->source,
                        u->module);
    return ls_ok();
}

static bool saves_module(resolving *r, const char *module) {
    return ls_adapter_saves(r->a, ls_arena_printf(r->a->arena, "%s.weight", module));
}

static ls_status save_parameter(resolving *r, const char *name) {
    ls_adapter *a = r->a;
    for (int i = 0; i < r->uses.n; i++) {
        const use *u = &r->uses.list[i];
        const size_t n = strlen(u->module);
        if (u->table && u->product && strncmp(name, u->module, n) == 0 && name[n] == '.')
            return tied_error(r, u->module);
    }
    *LS_PUSH(a->arena, a->saved, a->n_saved, a->saved_room) = ls_arena_strdup(a->arena, name);
    return ls_ok();
}

/* Whether a pattern matches the module of a parameter, or a module that contains it. */
static bool saves(const char *pattern, const char *parameter, ls_arena *arena) {
    char *name = ls_arena_strdup(arena, parameter);
    for (char *dot = strrchr(name, '.'); dot != NULL; dot = strrchr(name, '.')) {
        *dot = 0;
        if (is_meant(pattern, name)) return true;
    }
    return false;
}

/* Finds the parameters that are trained whole according to --lora. */
static ls_status resolve_saved(resolving *r) {
    ls_adapter *a = r->a;
    bool *used = LS_NEW_ARRAY(a->arena, bool, a->n_saves + 1);
    for (int t = 1; t < r->g->n_tensors; t++) {
        const ls_tensor_info *info = &r->g->tensors[t];
        bool any = false;
        if (info->role != LS_ROLE_PARAMETER || info->frozen) continue;
        for (int i = 0; i < a->n_saves; i++) {
            if (!saves(a->saves[i], info->name, a->arena)) continue;
            used[i] = any = true;
        }
        if (any) LS_TRY(save_parameter(r, info->name));
    }
    for (int i = 0; i < a->n_saves; i++)
        if (!used[i]) return no_match(r, "modules-to-save", a->saves[i]);
    const bool lacks = a->scoring != NULL && !ls_adapter_saves(a, a->scoring);
    return lacks ? save_parameter(r, a->scoring) : ls_ok();
}

static ls_status resolve_new(resolving *r) {
    ls_adapter *a = r->a;
    bool *used = LS_NEW_ARRAY(a->arena, bool, a->n_targets + 1);
    LS_TRY(resolve_saved(r));
    for (int i = 0; i < r->uses.n; i++) {
        const use *u = &r->uses.list[i];
        bool meant = a->all_linear && u->product && !u->head && !u->table;
        for (int k = 0; k < a->n_targets; k++) {
            if (!is_meant(a->targets[k], u->module)) continue;
            used[k] = meant = true;
        }
        if (!meant || saves_module(r, u->module)) continue;
        LS_TRY(check_use(r, u));
        add_module(r, u, a->r);
    }
    for (int k = 0; k < a->n_targets; k++)
        if (!used[k]) return no_match(r, "target", a->targets[k]);
    return ls_ok();
}

/* --- an adapter of a folder --------------------------------------------------------------------------------------- */

static bool has_parameter(const ls_graph *g, const char *name) {
    for (int t = 1; t < g->n_tensors; t++)
        if (g->tensors[t].role == LS_ROLE_PARAMETER && strcmp(g->tensors[t].name, name) == 0) return true;
    return false;
}

static ls_status no_place(const resolving *r, const char *tensor) {
    return ls_error(LS_INVALID, "%s: tensor \"%s\" is for no module of this model; expected an adapter of it",
                    ls_st_path(r->a->file), tensor);
}

static ls_status resolve_tensor(resolving *r, const ls_st_tensor *t) {
    ls_adapter_part part;
    const char *name = ls_adapter_plain_name(r->a->arena, t->name);
    const char *module = ls_adapter_module_of(r->a->arena, name, &part);
    if (module == NULL) return has_parameter(r->g, name) ? save_parameter(r, name) : no_place(r, t->name);
    if (part != LS_ADAPTER_A && part != LS_ADAPTER_TABLE_A)
        return ls_ok(); /* the check of the module's A covers its other parts */
    const use *u = NULL;
    for (int i = 0; i < r->uses.n; i++)
        if (strcmp(r->uses.list[i].module, module) == 0) u = &r->uses.list[i];
    for (int i = 0; i < r->n_copies && u == NULL; i++)
        if (strncmp(r->copies[i].copy, module, strlen(module)) == 0) return tied_error(r, module);
    if (u == NULL || t->ndim != 2 || t->shape[0] < 1) return no_place(r, t->name);
    LS_TRY(check_use(r, u));
    if (u->table != (part == LS_ADAPTER_TABLE_A)) return no_place(r, t->name);
    add_module(r, u, t->shape[0]);
    return ls_ok();
}

static ls_status resolve_folder(resolving *r) {
    int copies = 0;
    for (int64_t i = 0; i < ls_st_count(r->a->file); i++) {
        const ls_st_tensor *t = ls_st_at(r->a->file, i);
        if (ls_adapter_is_copy(t->name))
            copies++;
        else
            LS_TRY(resolve_tensor(r, t));
    }
    if (r->a->scoring != NULL && !ls_adapter_saves(r->a, r->a->scoring))
        return ls_error(
            LS_INVALID,
            "%s: no tensor %s, the head of a model that scores; expected an adapter of such a model, or --lora "
            "on a model that this one is merged into (checkpoint export --merge)",
            ls_st_path(r->a->file), r->a->scoring);
    if (copies > 0)
        ls_log("%s: %d tensors (...base_layer.weight) are copies of the model's own, and not read",
               ls_st_path(r->a->file), copies);
    return ls_ok();
}

/* Counts the trained elements in the graph with the adapter. */
static ls_status count_elements(ls_adapter *a, const ls_graph *g) {
    ls_graph *with = ls_graph_create(g->dtype);
    const ls_status status = ls_adapter_apply(a, g, with, LS_NEW_ARRAY(a->arena, ls_tensor, g->n_tensors));
    a->elements = 0;
    for (int t = 1; t < with->n_tensors; t++) {
        const ls_tensor_info *info = &with->tensors[t];
        if (info->role == LS_ROLE_PARAMETER && !info->frozen) a->elements += ls_shape_elements(&info->shape);
    }
    ls_graph_destroy(with);
    return status;
}

ls_status ls_adapter_resolve(ls_adapter *a, const ls_graph *g, ls_tensor logits, const ls_weight_copy *copies,
                             int n_copies) {
    resolving r = {.a = a, .g = g, .uses = {.arena = a->arena}, .copies = copies, .n_copies = n_copies};
    LS_TRY(ls_graph_status(g));
    find_uses(g, logits, &r.uses);
    LS_TRY(a->is_new ? resolve_new(&r) : resolve_folder(&r));
    if (a->n_modules + a->n_saved == 0)
        return ls_error(LS_USAGE, "%s: no module has an adapter, and none is saved; expected one at least", a->source);
    for (int i = 0; i < r.uses.n; i++) {
        bool adapted = false;
        for (int k = 0; k < a->n_modules; k++) adapted |= strcmp(a->modules[k].name, r.uses.list[i].module) == 0;
        if (!adapted) *LS_PUSH(a->arena, a->others, a->n_others, a->others_room) = r.uses.list[i].module;
    }
    return count_elements(a, g);
}

/* --- description -------------------------------------------------------------------------------------------------- */

void ls_adapter_print(const ls_adapter *a, char *out, size_t room) {
    char saved[64] = "";
    if (a->n_saved > 0) snprintf(saved, sizeof saved, " and %d parameters trained whole", a->n_saved);
    ls_print(out, room, "%s%s r %lld, alpha %g on %d modules%s, %.3f M parameters", a->rslora ? "rs" : "",
             a->dora ? "DoRA" : "LoRA", (long long)a->r, a->alpha, a->n_modules, saved, (double)a->elements / 1e6);
}
