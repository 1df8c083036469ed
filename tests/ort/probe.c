/* Asks single parts of the library: `probe key DTYPE` with attributes on stdin, one `name value ...`
 * a line, and `probe formula TEXT n d h w`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formula.h"
#include "kernel.h"
#include "schedule.h"

const char *const convt_embedded[] = {NULL};

typedef struct {
    char lines[32][512];
    int count;
} attributes;

static const char *value_of(void *from, const char *name) {
    attributes *a = from;
    size_t length = strlen(name);
    for (int i = 0; i < a->count; i++)
        if (strncmp(a->lines[i], name, length) == 0 && a->lines[i][length] == ' ')
            return a->lines[i] + length + 1;
    return NULL;
}

static bool integers(void *from, const char *name, int64_t *values, size_t *count) {
    const char *text = value_of(from, name);
    size_t found = 0;
    for (char *end; text != NULL && *text != '\0'; text = end) {
        if (found == *count) return false;
        values[found++] = strtoll(text, &end, 10);
    }
    *count = found;
    return text != NULL;
}

static bool integer(void *from, const char *name, int64_t *value) {
    size_t count = 1;
    return integers(from, name, value, &count) && count == 1;
}

static bool real(void *from, const char *name, float *value) {
    const char *text = value_of(from, name);
    if (text != NULL) *value = strtof(text, NULL);
    return text != NULL;
}

static bool word(void *from, const char *name, char *value, size_t bytes) {
    const char *text = value_of(from, name);
    return text != NULL && snprintf(value, bytes, "%s", text) < (int)bytes;
}

static int print_key(const char *dtype) {
    static attributes a;
    convt_reader reader = {&a, integer, integers, real, word};
    convt_node node;
    char message[CONVT_MESSAGE_BYTES], key[CONVT_KEY_BYTES];
    while (a.count < 32 && fgets(a.lines[a.count], sizeof *a.lines, stdin) != NULL) {
        a.lines[a.count][strcspn(a.lines[a.count], "\n")] = '\0';
        a.count++;
    }
    convt_dtype type = CONVT_FLOAT32;
    while (strcmp(convt_dtype_name(type), dtype) != 0) type++;
    if (!convt_read_node(&reader, type, &node, message)) return puts(message), 1;
    convt_key(&node, key);
    printf("%s\n%lld\n", key, (long long)convt_weight_elements(&node));
    return 0;
}

static int print_formula(char **argv) {
    static convt_formula formula;
    convt_sizes sizes = {atoll(argv[1]), atoll(argv[2]), atoll(argv[3]), atoll(argv[4])};
    int64_t result;
    if (!convt_parse_formula(argv[0], &formula)) return puts("no formula"), 1;
    if (!convt_evaluate(&formula, &sizes, &result)) return puts("out of range"), 1;
    printf("%lld\n", (long long)result);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "key") == 0) return print_key(argv[2]);
    if (argc == 7 && strcmp(argv[1], "formula") == 0) return print_formula(argv + 2);
    return 2;
}
