/*
 * Run a fuzz target over files, where there is no fuzzer: each file and each file of each directory that is named.
 * What a fuzzer has found stays found, with any compiler and sanitizer.
 */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define INPUT_BYTES_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static unsigned replayed;

static int replay(const char *path)
{
    static uint8_t bytes[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    size_t size_bytes = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    (void)LLVMFuzzerTestOneInput(bytes, size_bytes);
    replayed++;
    return 0;
}

static int replay_all(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        return replay(path);
    DIR *directory = opendir(path);
    int failed = 0;
    struct dirent *entry;
    if (!directory) {
        perror(path);
        return 1;
    }
    while ((entry = readdir(directory))) {
        char name[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failed |= replay(name);
    }
    closedir(directory);
    return failed;
}

int main(int count, char **paths)
{
    int failed = 0;
    for (int i = 1; i < count; i++)
        failed |= replay_all(paths[i]);
    printf("%u inputs\n", replayed);
    return failed || !replayed;
}
