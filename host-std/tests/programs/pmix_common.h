/* What the programs that ask in PMIx have in common. */
#include <pmix.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t self, everybody;

/* Ends the program unless a call went as it should. */
static inline void expect(pmix_status_t status, pmix_status_t wanted, const char *what)
{
    if (status != wanted) {
        fprintf(stderr, "%s: %s instead of %s\n", what, PMIx_Error_string(status),
                PMIx_Error_string(wanted));
        exit(3);
    }
}

static inline void check(pmix_status_t status, const char *what)
{
    expect(status, PMIX_SUCCESS, what);
}

/* Ends the program unless something holds. */
static inline void holds(int it_does, const char *what)
{
    if (!it_does) {
        fprintf(stderr, "rank %u: it does not hold that %s\n", self.rank, what);
        exit(4);
    }
}

static inline void begin(void)
{
    check(PMIx_Init(&self, NULL, 0), "init");
    PMIX_PROC_LOAD(&everybody, self.nspace, PMIX_RANK_WILDCARD);
}

static inline void meet(void)
{
    check(PMIx_Fence(NULL, 0, NULL, 0), "fence");
}

/* Says a line, which reaches the launcher before whatever follows. */
static inline void say(const char *what)
{
    printf("%u: %s\n", self.rank, what);
    fflush(stdout);
}

static inline int finish(void)
{
    check(PMIx_Finalize(NULL, 0), "finalize");
    return 0;
}
