/* Integer expressions of the run-time sizes in postfix order, as
 * plugins/conv_transpose/formula.py writes them: "n h * 3 +". */
#ifndef CONVT_FORMULA_H
#define CONVT_FORMULA_H

#include <stdbool.h>
#include <stdint.h>

#define CONVT_MAX_TOKENS 64

/* Sizes of x: batch, depth, height, width. */
typedef struct {
    int64_t n, d, h, w;
} convt_sizes;

typedef struct {
    int count;
    char kind[CONVT_MAX_TOKENS]; /* a size's name, an operator, or '#' for a number */
    int64_t value[CONVT_MAX_TOKENS];
} convt_formula;

/* False where the text is no such expression. */
bool convt_parse_formula(const char *text, convt_formula *formula);

/* False where a step leaves 64 bits or divides by zero. */
bool convt_evaluate(const convt_formula *formula, const convt_sizes *sizes, int64_t *result);

#endif
