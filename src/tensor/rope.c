/*
 * The kinds of rope scaling, one row each, with the formulas of the published model definitions.
 *   linear   positions are divided by the factor (Chen et al., arXiv 2306.15595)
 *   dynamic  theta grows when the sequence is longer than those that the model was trained with
 *   yarn     high frequencies stay, low ones are interpolated, and attention is sharpened (Peng et al., arXiv
 *            2309.00071)
 *   llama3   high frequencies stay, low ones are interpolated, with bounds by wavelength (the Llama 3.1 model
 *            definition)
 *   longrope each frequency has a divisor for short and one for long sequences, and attention is sharpened (Ding et
 *            al., arXiv 2402.13753)
 */
#include "tensor/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static ls_status check_factor(const ls_rope_params *p) {
    if (p->factor >= 1 && isfinite(p->factor)) return ls_ok();
    return ls_error(LS_INVALID, "rope scaling: factor is %g, expected >= 1", p->factor);
}

static ls_status check_length(const ls_rope_params *p) {
    LS_TRY(check_factor(p));
    if (p->original_length > 0 && isfinite(p->original_length)) return ls_ok();
    return ls_error(LS_INVALID, "rope scaling: original length is %g, expected a positive number of tokens",
                    p->original_length);
}

/* ---- linear ---- */

static float linear(const ls_rope_params *p, float power, int64_t i, int64_t D) {
    (void)i, (void)D;
    return 1 / power / (float)p->factor;
}

/* ---- llama3 ---- */

static ls_status check_llama3(const ls_rope_params *p) {
    LS_TRY(check_length(p));
    if (p->low_factor > 0 && p->high_factor > p->low_factor) return ls_ok();
    return ls_error(LS_INVALID, "rope scaling llama3: low_freq_factor %g, high_freq_factor %g; expected 0 < low < high",
                    p->low_factor, p->high_factor);
}

/*
 * Wavelengths above original/low are stretched, those below original/high are kept, and those between are interpolated.
 */
static float llama3(const ls_rope_params *p, float power, int64_t i, int64_t D) {
    (void)i, (void)D;
    const float plain = 1 / power, wavelength = 1 / plain * (float)(2 * M_PI), divided = plain / (float)p->factor;
    if (wavelength > (float)(p->original_length / p->low_factor)) return divided;
    if (wavelength < (float)(p->original_length / p->high_factor)) return plain;
    const float waves = 1 / wavelength * (float)p->original_length;
    const float smooth = (waves - (float)p->low_factor) / (float)(p->high_factor - p->low_factor);
    return (1 - smooth) * plain / (float)p->factor + smooth * plain;
}

/* ---- yarn ---- */

static double beta_fast(const ls_rope_params *p) { return p->beta_fast > 0 ? p->beta_fast : 32; }
static double beta_slow(const ls_rope_params *p) { return p->beta_slow > 0 ? p->beta_slow : 1; }

static ls_status check_yarn(const ls_rope_params *p) {
    LS_TRY(check_length(p));
    if (!(p->theta > 1)) return ls_error(LS_INVALID, "rope scaling yarn: theta is %g, expected more than 1", p->theta);
    if (!(beta_fast(p) >= beta_slow(p)) || !isfinite(beta_fast(p)))
        return ls_error(LS_INVALID, "rope scaling yarn: beta_fast is %g, expected at least beta_slow %g", beta_fast(p),
                        beta_slow(p));
    if (!(p->attention_factor >= 0) || !isfinite(p->attention_factor))
        return ls_error(LS_INVALID, "rope scaling yarn: attention_factor is %g, expected a positive number",
                        p->attention_factor);
    return ls_ok();
}

/*
 * The index of the dimension pair, in general between two integers, that makes `rotations` rotations over the original
 * length.
 */
static double pair_of(const ls_rope_params *p, double rotations, int64_t D) {
    return (double)D * log(p->original_length / (rotations * 2.0 * M_PI)) / (2.0 * log(p->theta));
}

static float yarn(const ls_rope_params *p, float power, int64_t i, int64_t D) {
    double low = pair_of(p, beta_fast(p), D), high = pair_of(p, beta_slow(p), D);
    if (!p->untruncated) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)(D - 1));
    if (low == high) high += 0.001;
    const float kept = 1 - fminf(fmaxf(((float)i - (float)low) / (float)(high - low), 0), 1);
    return 1 / ((float)p->factor * power) * (1 - kept) + 1 / power * kept;
}

static double sharpening(double factor, double weight) { return factor > 1 ? 0.1 * weight * log(factor) + 1 : 1; }

static double yarn_magnitude(const ls_rope_params *p) {
    if (p->attention_factor > 0) return p->attention_factor;
    if (p->mscale != 0 && p->mscale_all_dim != 0)
        return sharpening(p->factor, p->mscale) / sharpening(p->factor, p->mscale_all_dim);
    return sharpening(p->factor, 1);
}

/* ---- longrope ---- */

static ls_status check_longrope(const ls_rope_params *p) {
    LS_TRY(check_length(p));
    if (!(p->original_length > 1))
        return ls_error(LS_INVALID, "rope scaling longrope: original length is %g, expected more than 1",
                        p->original_length);
    if (p->attention_factor >= 0 && isfinite(p->attention_factor)) return ls_ok();
    return ls_error(LS_INVALID, "rope scaling longrope: attention_factor is %g, expected a positive number",
                    p->attention_factor);
}

static float longrope(const ls_rope_params *p, float power, int64_t i, int64_t D) {
    (void)D;
    return 1 / ((p->length > p->original_length ? p->long_factor : p->short_factor)[i] * power);
}

static double longrope_magnitude(const ls_rope_params *p) {
    if (p->attention_factor > 0) return p->attention_factor;
    return sqrt(1 + log(p->factor) / log(p->original_length));
}

static ls_status check_pairs(const ls_rope_params *p, int64_t D) {
    if (D / 2 > LS_ROPE_PAIRS)
        return ls_error(LS_INVALID, "rope scaling longrope: %lld rotated dimensions, expected at most %d", (long long)D,
                        2 * LS_ROPE_PAIRS);
    for (int64_t i = 0; i < D / 2; i++)
        if (!(p->short_factor[i] > 0) || !(p->long_factor[i] > 0))
            return ls_error(LS_INVALID,
                            "rope scaling longrope: pair %lld has factors %g and %g, expected positive numbers",
                            (long long)i, (double)p->short_factor[i], (double)p->long_factor[i]);
    return ls_ok();
}

/* ---- the table ---- */

static const ls_rope_kind kinds[] = {
    [LS_ROPE_PLAIN] = {"default", .check = NULL},
    [LS_ROPE_LINEAR] = {"linear", check_factor, .frequency = linear},
    [LS_ROPE_DYNAMIC] = {"dynamic", check_length, .frequency = ls_rope_dynamic, .by_length = true, .grows = true},
    [LS_ROPE_YARN] = {"yarn", check_yarn, .frequency = yarn, .magnitude = yarn_magnitude},
    [LS_ROPE_LLAMA3] = {"llama3", check_llama3, .frequency = llama3},
    [LS_ROPE_LONGROPE] = {"longrope", check_longrope, check_pairs, longrope, longrope_magnitude, .by_length = true},
};

void ls_rope_names(char *out, size_t room) {
    size_t used = 0;
    for (size_t k = 0; k < LS_COUNT(kinds) && used < room; k++)
        used += (size_t)snprintf(out + used, room - used, "%s%s",
                                 k == 0                     ? ""
                                 : k + 1 == LS_COUNT(kinds) ? " or "
                                                            : ", ",
                                 kinds[k].name);
}

ls_status ls_rope_find(const char *name, ls_rope_scaling *out) {
    for (size_t k = 0; k < LS_COUNT(kinds); k++) {
        if (strcmp(kinds[k].name, name) != 0) continue;
        *out = (ls_rope_scaling)k;
        return ls_ok();
    }
    char names[96];
    ls_rope_names(names, sizeof names);
    return ls_error(LS_UNSUPPORTED, "rope scaling \"%s\" is not known, expected %s", name, names);
}

ls_status ls_rope_check(const ls_rope_params *p, int64_t D) {
    if (!((float)p->theta > 0) || !isfinite((float)p->theta))
        return ls_error(LS_INVALID, "rope: theta is %g, expected a positive number in the range of f32", p->theta);
    const ls_rope_kind *kind = &kinds[p->scaling];
    if (kind->check != NULL) LS_TRY(kind->check(p));
    return kind->check_pairs != NULL ? kind->check_pairs(p, D) : ls_ok();
}

float ls_rope_frequency(const ls_rope_params *p, int64_t i, int64_t D) {
    const float power = ls_rope_power((float)p->theta, i, D);
    const ls_rope_kind *kind = &kinds[p->scaling];
    return kind->frequency != NULL ? kind->frequency(p, power, i, D) : 1 / power;
}

bool ls_rope_by_length(const ls_rope_params *p) { return kinds[p->scaling].by_length; }
bool ls_rope_grows(const ls_rope_params *p) { return kinds[p->scaling].grows; }

float ls_rope_frequency_at(const ls_rope_params *p, float usual, int64_t position, int64_t i, int64_t D) {
    if (!ls_rope_grows(p) || (double)position < p->length) return usual;
    ls_rope_params grown = *p;
    grown.length = (double)position + 1;
    return ls_rope_frequency(&grown, i, D);
}

double ls_rope_magnitude(const ls_rope_params *p) {
    const ls_rope_kind *kind = &kinds[p->scaling];
    return kind->magnitude != NULL ? kind->magnitude(p) : 1;
}
