#include "formula.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 16

static bool is_operator(char c) { return strchr("+-*/", c) != NULL; }

static bool read_number(const char *word, size_t length, int64_t *value) {
    const char *digits = word + (word[0] == '-' && length > 1);
    size_t count = length - (size_t)(digits - word);
    if (count == 0 || count > 18) return false;
    for (size_t i = 0; i < count; i++)
        if (!isdigit((unsigned char)digits[i])) return false;
    *value = strtoll(word, NULL, 10);
    return true;
}

static bool read_token(const char *word, size_t length, char *kind, int64_t *value) {
    *value = 0;
    if (length == 1 && (is_operator(*word) || strchr("ndhw", *word) != NULL)) {
        *kind = *word;
        return true;
    }
    *kind = '#';
    return read_number(word, length, value);
}

bool convt_parse_formula(const char *text, convt_formula *formula) {
    int depth = 0;
    formula->count = 0;
    while (*(text += strspn(text, " ")) != '\0') {
        size_t length = strcspn(text, " ");
        int i = formula->count;
        if (i == CONVT_MAX_TOKENS) return false;
        if (!read_token(text, length, &formula->kind[i], &formula->value[i])) return false;
        depth += is_operator(formula->kind[i]) ? -1 : 1;
        if (depth < 1 || depth > MAX_DEPTH) return false;
        formula->count++;
        text += length;
    }
    return depth == 1;
}

static bool divide(int64_t a, int64_t b, int64_t *result) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *result = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
    return true;
}

static bool apply(char kind, int64_t a, int64_t b, int64_t *result) {
    switch (kind) {
        case '+': return !__builtin_add_overflow(a, b, result);
        case '-': return !__builtin_sub_overflow(a, b, result);
        case '*': return !__builtin_mul_overflow(a, b, result);
        default: return divide(a, b, result);
    }
}

static int64_t leaf(const convt_formula *formula, int i, const convt_sizes *sizes) {
    switch (formula->kind[i]) {
        case 'n': return sizes->n;
        case 'd': return sizes->d;
        case 'h': return sizes->h;
        case 'w': return sizes->w;
        default: return formula->value[i];
    }
}

bool convt_evaluate(const convt_formula *formula, const convt_sizes *sizes, int64_t *result) {
    int64_t stack[MAX_DEPTH];
    int depth = 0;
    for (int i = 0; i < formula->count; i++) {
        if (!is_operator(formula->kind[i])) {
            stack[depth++] = leaf(formula, i, sizes);
            continue;
        }
        depth--;
        if (!apply(formula->kind[i], stack[depth - 1], stack[depth], &stack[depth - 1]))
            return false;
    }
    *result = stack[0];
    return true;
}
