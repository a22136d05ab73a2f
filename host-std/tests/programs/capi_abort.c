/* Rank 1 aborts the job; rank 0 waits for it in a barrier. */
#include <pmi.h>

int main(void) {
    int spawned, rank;
    if (PMI_Init(&spawned) != PMI_SUCCESS || PMI_Get_rank(&rank) != PMI_SUCCESS)
        return 2;
    if (rank == 1)
        PMI_Abort(7, "out of paper");
    PMI_Barrier();
    return 3;
}
