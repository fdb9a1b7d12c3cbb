/* JSON values that commands answer with. */
#ifndef VBLK_CONTROL_ANSWER_H
#define VBLK_CONTROL_ANSWER_H

#include <jansson.h>
#include <stdint.h>

/** A string; bytes that are no UTF-8 (paths may hold any) become U+FFFD. NULL: null. */
json_t *vblk_answer_text(const char *text);

void vblk_answer_set_text(json_t *object, const char *name, const char *text);
void vblk_answer_set_number(json_t *object, const char *name, uint64_t number);

#endif
