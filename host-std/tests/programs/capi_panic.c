/* Both interfaces in one program, linked of the static archive, and a panic in each. */
#include <pmi.h>
#include <pmi2.h>
#include <stdio.h>

void pmi_capi_inject_panic(void);

int main(void) {
    int spawned, rank = -7;
    if (PMI_Init(&spawned) != PMI_SUCCESS)
        return 2;
    pmi_capi_inject_panic();
    if (PMI_Get_rank(&rank) != PMI_FAIL || rank != -7)
        return 3;
    pmi_capi_inject_panic();
    if (PMI2_Job_GetRank(&rank) != PMI2_FAIL || rank != -7)
        return 4;
    /* The session goes on. */
    if (PMI2_Job_GetRank(&rank) != PMI2_SUCCESS || PMI_Barrier() != PMI_SUCCESS)
        return 5;
    printf("rank %d: a panic is PMI_FAIL\n", rank);
    return PMI_Finalize();
}
