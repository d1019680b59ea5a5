/* What methods and filters of texts share. */
#ifndef LS_JINJA_METHODS_IMPL_H
#define LS_JINJA_METHODS_IMPL_H

#include "jinja/run_impl.h"

const jinja_function *jinja_text_method(jinja_text name);

jinja_value jinja_text_in_case(jinja_run *r, jinja_text text, jinja_case to);
jinja_value jinja_capitalized(jinja_run *r, jinja_text text);
bool jinja_text_is_case(jinja_text text,
                        jinja_case which); /* of its letters that have any, and there are some */
/* most < 0: all of them. */
jinja_value jinja_replaced(jinja_run *r, jinja_text text, jinja_text old, jinja_text new, int64_t most);
jinja_list *jinja_lines(jinja_run *r, jinja_text text, bool keep_ends);
jinja_value jinja_centered(jinja_run *r, jinja_text text, jinja_value width);

#endif
