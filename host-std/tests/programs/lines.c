/* Proves that the output of many processes arrives whole: no line cut, mixed with another or lost.
 * Plain C without MPI:
 *     lines COUNT BYTES
 * prints COUNT lines of BYTES bytes each, the newline included: "R:I:" (R is PMI_RANK or "-", I counts
 * from 0), then one letter repeated that follows from R and I. BYTES too small for the tag is an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *tag = getenv("PMI_RANK");
    long count, bytes, i;
    char *line;

    if (argc != 3 || (count = atol(argv[1])) < 0 || (bytes = atol(argv[2])) < 1) {
        fprintf(stderr, "usage: lines COUNT BYTES\n");
        return 64;
    }
    if (tag == NULL)
        tag = "-";
    line = malloc((size_t)bytes);
    if (line == NULL)
        return 71;
    for (i = 0; i < count; i++) {
        int used = snprintf(line, (size_t)bytes, "%s:%ld:", tag, i);
        if (used < 0 || used >= bytes) {
            fprintf(stderr, "lines: %ld bytes do not hold the tag of line %ld\n", bytes, i);
            return 65;
        }
        memset(line + used, 'a' + (int)((atol(tag) + i) % 26), (size_t)(bytes - used - 1));
        line[bytes - 1] = '\n';
        if (fwrite(line, 1, (size_t)bytes, stdout) != (size_t)bytes)
            return 74;
    }
    free(line);
    return fflush(stdout) == 0 ? 0 : 74;
}
