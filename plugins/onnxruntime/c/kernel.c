#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 2048

static const char *const OPERANDS[] = {"x", "w", "bias", "slope", "residual", "y"};

/* The next line into `line`; false at the end or where it is too long. */
static bool next_line(const char **text, char line[LINE_BYTES]) {
    const char *end = strchr(*text, '\n');
    if (end == NULL || end - *text >= LINE_BYTES) return false;
    memcpy(line, *text, (size_t)(end - *text));
    line[end - *text] = '\0';
    *text = end + 1;
    return true;
}

static bool copy(char *to, size_t bytes, const char *from) {
    return snprintf(to, bytes, "%s", from) < (int)bytes;
}

static bool add_argument(convt_kernel *kernel, const char *operand, const char *formula) {
    if (kernel->argument_count == CONVT_MAX_ARGUMENTS) return false;
    convt_argument *argument = &kernel->argument[kernel->argument_count++];
    if (formula != NULL) return convt_parse_formula(formula, &argument->number);
    for (size_t i = 0; i < sizeof OPERANDS / sizeof *OPERANDS; i++)
        if (strcmp(operand, OPERANDS[i]) == 0) argument->operand = OPERANDS[i];
    return argument->operand != NULL;
}

static bool read_sizes(convt_kernel *kernel, const char *text) {
    for (int i = 0; i < 4; i++) {
        char *end;
        text += strspn(text, " ");
        kernel->sizes[i] = *text == '-' ? -1 : strtoll(text, &end, 10);
        text = *text == '-' ? text + 1 : end;
    }
    return *text == '\0';
}

static bool read_target(convt_kernel *kernel, const char *text) {
    char how[16] = "";
    if (sscanf(text, "%d %15s", &kernel->capability, how) != 2) return false;
    kernel->portable = strcmp(how, "portable") == 0;
    return kernel->portable || strcmp(how, "exact") == 0;
}

/* One line of the head: a word, then what it says. */
static bool read_line(convt_kernel *kernel, char *line) {
    char *rest = strchr(line, ' ');
    if (rest == NULL) return false;
    *rest++ = '\0';
    if (strcmp(line, "key") == 0) return copy(kernel->key, sizeof kernel->key, rest);
    if (strcmp(line, "entry") == 0) return copy(kernel->entry, sizeof kernel->entry, rest);
    if (strcmp(line, "target") == 0) return read_target(kernel, rest);
    if (strcmp(line, "sizes") == 0) return read_sizes(kernel, rest);
    if (strcmp(line, "grid") == 0) return convt_parse_formula(rest, &kernel->grid);
    if (strcmp(line, "pointer") == 0) return add_argument(kernel, rest, NULL);
    if (strcmp(line, "number") == 0) return add_argument(kernel, NULL, rest);
    if (strcmp(line, "tf32") == 0) return (kernel->tf32 = *rest == '1') || *rest == '0';
    if (strcmp(line, "wide") == 0) return (kernel->wide = *rest == '1') || *rest == '0';
    if (strcmp(line, "launch") == 0)
        return sscanf(rest, "%u %u", &kernel->threads, &kernel->shared_bytes) == 2;
    return false;
}

static bool complete(const convt_kernel *kernel) {
    return kernel->key[0] && kernel->entry[0] && kernel->capability > 0 && kernel->threads > 0 &&
           kernel->threads <= 1024 && kernel->grid.count > 0 && kernel->argument_count > 0;
}

convt_kernel *convt_parse_kernel(const char *text) {
    char line[LINE_BYTES];
    const char *at = text;
    convt_kernel *kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL) return NULL;
    kernel->text = text;
    bool good = next_line(&at, line) && strcmp(line, "convt-kernel 1") == 0;
    while (good && kernel->ptx == NULL) {
        good = next_line(&at, line);
        if (good && strcmp(line, "ptx") == 0)
            kernel->ptx = at;
        else
            good = good && read_line(kernel, line);
    }
    if (good && complete(kernel)) return kernel;
    free(kernel);
    return NULL;
}

bool convt_kernel_runs_on(const convt_kernel *kernel, int capability) {
    if (kernel->capability == capability) return true;
    return kernel->portable && kernel->capability < capability;
}

bool convt_kernel_fits(const convt_kernel *kernel, const convt_sizes *sizes, int64_t reach) {
    const int64_t given[] = {sizes->n, sizes->d, sizes->h, sizes->w};
    for (int i = 0; i < 4; i++)
        if (kernel->sizes[i] >= 0 && kernel->sizes[i] != given[i]) return false;
    return kernel->wide || reach < (int64_t)1 << 31;
}
