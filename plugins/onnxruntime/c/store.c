/* Where kernels come from: what the library was built with, and a folder of the user's own. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"

#define MAX_FILE_BYTES (16 << 20)
#define SUFFIX ".kernel"

typedef struct stored_file {
    struct stored_file *next;
    convt_kernel *kernel;
    char path[];
} stored_file;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static convt_kernel *embedded;
static bool embedded_read;
static stored_file *stored;

static void read_embedded(void) {
    convt_kernel **end = &embedded;
    if (embedded_read) return;
    embedded_read = true;
    for (const char *const *text = convt_embedded; *text != NULL; text++)
        if ((*end = convt_parse_kernel(*text)) != NULL) end = &(*end)->next;
}

/* The file's text, ended by a zero; NULL where it is too large or cannot be read. */
static char *read_text(int folder, const char *name) {
    struct stat status;
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *text = NULL;
    if (file < 0) return NULL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size < MAX_FILE_BYTES) {
        text = calloc(1, (size_t)status.st_size + 1);
        for (off_t used = 0; text != NULL && used < status.st_size;) {
            ssize_t got = read(file, text + used, (size_t)(status.st_size - used));
            if (got <= 0) break;
            used += got;
        }
    }
    close(file);
    return text;
}

/* A file that is none is looked at again each time: it may have been written anew. */
static const convt_kernel *stored_kernel(int folder, const char *store, const char *name) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", store, name) >= (int)sizeof path) return NULL;
    for (stored_file *file = stored; file != NULL; file = file->next)
        if (strcmp(file->path, path) == 0) return file->kernel;
    char *text = read_text(folder, name);
    convt_kernel *kernel = text == NULL ? NULL : convt_parse_kernel(text);
    stored_file *file = kernel == NULL ? NULL : calloc(1, sizeof *file + strlen(path) + 1);
    if (file == NULL) {
        free(kernel);
        free(text);
        return NULL;
    }
    strcpy(file->path, path);
    file->kernel = kernel;
    file->next = stored;
    stored = file;
    return file->kernel;
}

/* A folder that others may write to could hold anything. */
static DIR *open_store(const char *store) {
    struct stat status;
    if (store == NULL || *store == '\0') return NULL;
    int folder = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return NULL;
    bool own = fstat(folder, &status) == 0 && status.st_uid == geteuid() &&
               (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    DIR *entries = own ? fdopendir(folder) : NULL;
    if (entries == NULL) close(folder);
    return entries;
}

/* FNV-1a: the beginning of a kernel's file name, from its key. */
static void file_prefix(const char *key, char prefix[17]) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *key != '\0'; key++) hash = (hash ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    snprintf(prefix, 17, "%016" PRIx64, hash);
}

static bool is_kernel_file(const char *name) {
    size_t length = strlen(name), suffix = strlen(SUFFIX);
    return length > suffix && strcmp(name + length - suffix, SUFFIX) == 0;
}

static int fixed_sizes(const convt_kernel *kernel) {
    int count = 0;
    for (int i = 0; i < 4; i++) count += kernel->sizes[i] >= 0;
    return count;
}

/* More sizes compiled in, then the device's own instructions, then addresses of 32 bits. */
static bool before(const convt_kernel *a, const convt_kernel *b) {
    if (fixed_sizes(a) != fixed_sizes(b)) return fixed_sizes(a) > fixed_sizes(b);
    if (a->capability != b->capability) return a->capability > b->capability;
    return !a->wide && b->wide;
}

typedef struct {
    const char *key;
    bool tf32;
    int capability, limit, count;
    const convt_kernel **found;
} search;

static void offer(search *s, const convt_kernel *kernel) {
    if (kernel == NULL || !convt_kernel_runs_on(kernel, s->capability)) return;
    if (s->key != NULL && (kernel->tf32 != s->tf32 || strcmp(kernel->key, s->key) != 0)) return;
    int at = s->count < s->limit ? s->count++ : s->limit;
    for (; at > 0 && before(kernel, s->found[at - 1]); at--)
        if (at < s->limit) s->found[at] = s->found[at - 1];
    if (at < s->limit) s->found[at] = kernel;
}

static void look_everywhere(search *s, const char *store) {
    char prefix[17] = "";
    if (s->key != NULL) file_prefix(s->key, prefix);
    pthread_mutex_lock(&lock);
    read_embedded();
    for (const convt_kernel *kernel = embedded; kernel != NULL; kernel = kernel->next)
        offer(s, kernel);
    DIR *entries = open_store(store);
    for (struct dirent *e; entries != NULL && (e = readdir(entries)) != NULL;)
        if (is_kernel_file(e->d_name) && strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            offer(s, stored_kernel(dirfd(entries), store, e->d_name));
    if (entries != NULL) closedir(entries);
    pthread_mutex_unlock(&lock);
}

int convt_find_kernels(const char *key, bool tf32, int capability, const char *store,
                       const convt_kernel **found, int limit) {
    /* Other types have one way to be multiplied. */
    bool rounds = tf32 && strncmp(key, "float32 ", 8) == 0;
    search s = {key, rounds, capability, limit, 0, found};
    look_everywhere(&s, store);
    return s.count;
}

bool convt_any_kernel(int capability, const char *store) {
    const convt_kernel *found[1];
    search s = {NULL, false, capability, 1, 0, found};
    look_everywhere(&s, store);
    return s.count > 0;
}
