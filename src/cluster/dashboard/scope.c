#include "cluster/dashboard/scope.h"

#include <stdlib.h>

#include "base/text.h"

bool dashboard_scope_sees(const struct dashboard_scope *scope, const char *namespace)
{
        if (scope->sees_all)
                return true;
        return namespace && scope->n_namespaces > 0 &&
               bsearch(&namespace, scope->namespaces, scope->n_namespaces, sizeof(*scope->namespaces), text_compare);
}
