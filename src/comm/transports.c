/* The one table of transports. */
#include "comm/comm_impl.h"

#include <string.h>

static const ls_transport *const transports[] = {
    &ls_transport_self,
    &ls_transport_shm,
    &ls_transport_chaos,
};

const char *ls_transport_name(int index) {
    return index >= 0 && (size_t)index < LS_COUNT(transports) ? transports[index]->name : NULL;
}

const ls_transport *ls_transport_find(const char *name) {
    for (size_t i = 0; i < LS_COUNT(transports); i++)
        if (strcmp(transports[i]->name, name) == 0) return transports[i];
    return NULL;
}

bool ls_transport_addresses_peers(const char *transport) {
    const size_t n = strcspn(transport, ":"); /* settings follow */
    for (size_t i = 0; i < LS_COUNT(transports); i++) {
        if (strlen(transports[i]->name) == n && strncmp(transports[i]->name, transport, n) == 0)
            return transports[i]->addressable;
    }
    return false;
}
