/* A rank that initializes PMI-1, fences, prints when its initialization was complete (nanoseconds of the real-time
 * clock), and ends. It is in C because a launcher names a descriptor by its number, and does not read more than it
 * prints: what is measured is the launcher. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int descriptor;

static void exchange(const char *request)
{
    char reply[1024];
    size_t len = 0;
    if (write(descriptor, request, strlen(request)) != (ssize_t)strlen(request))
        exit(1);
    do {
        ssize_t got = read(descriptor, reply + len, sizeof reply - len);
        if (got <= 0)
            exit(1);
        len += got;
    } while (reply[len - 1] != '\n' && len < sizeof reply);
}

int main(void)
{
    struct timespec now;
    const char *number = getenv("PMI_FD");
    if (number == NULL) {
        fprintf(stderr, "pmi-init: PMI_FD is not set: start this by a launcher\n");
        return 2;
    }
    descriptor = atoi(number);
    exchange("cmd=init pmi_version=1 pmi_subversion=1\n");
    exchange("cmd=get_my_kvsname\n");
    clock_gettime(CLOCK_REALTIME, &now);
    exchange("cmd=barrier_in\n");
    printf("initialized at_ns=%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    fflush(stdout);
    exchange("cmd=finalize\n");
    return 0;
}
