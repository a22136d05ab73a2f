/* Calls one interface with a server that answers anything: every code is one of the specification, and no byte
 * behind a buffer is written.
 *
 *   capi_hostile 1|2
 */
#include <pmi.h>
#include <pmi2.h>
#include <stdio.h>
#include <string.h>

static char buffer[256];
static int numbers[12];
static int faults;

static void prepare(void) {
    memset(buffer, '#', sizeof buffer);
    memset(numbers, 0x55, sizeof numbers);
}

/* The calls below have at most 64 bytes and 4 numbers. */
static void check(const char *call, int code) {
    size_t i;
    int is_code = code >= -1 && code <= 14;
    for (i = 64; i < sizeof buffer; i++)
        is_code &= buffer[i] == '#';
    for (i = 8; i < 12; i++)
        is_code &= numbers[i] == 0x55555555;
    if (code == 0 && buffer[0] != '#')
        is_code &= memchr(buffer, 0, 64) != NULL;
    if (!is_code) {
        printf("%s: %d\n", call, code);
        faults++;
    }
}
#define CHECK(call) (prepare(), check(#call, (call)))

static void first(void) {
    char space[512] = "none";
    CHECK(PMI_Init(&numbers[0]));
    CHECK(PMI_Get_size(&numbers[0]));
    CHECK(PMI_Get_universe_size(&numbers[0]));
    CHECK(PMI_Get_appnum(&numbers[0]));
    CHECK(PMI_KVS_Get_name_length_max(&numbers[0]));
    CHECK(PMI_KVS_Get_value_length_max(&numbers[0]));
    CHECK(PMI_KVS_Get_my_name(buffer, 64));
    PMI_KVS_Get_my_name(space, sizeof space);
    CHECK(PMI_KVS_Put(space, "key", "a value"));
    CHECK(PMI_KVS_Commit(space));
    CHECK(PMI_Barrier());
    CHECK(PMI_KVS_Get(space, "key", buffer, 64));
    CHECK(PMI_Get_clique_size(&numbers[0]));
    CHECK(PMI_Get_clique_ranks(&numbers[0], 4));
    CHECK(PMI_Publish_name("service", "port"));
    CHECK(PMI_Unpublish_name("service"));
    CHECK(PMI_Finalize());
}

static void second(void) {
    char job[512] = "none";
    CHECK(PMI2_Init(&numbers[0], &numbers[1], &numbers[2], &numbers[3]));
    CHECK(PMI2_Info_GetSize(&numbers[0]));
    CHECK(PMI2_Job_GetId(buffer, 64));
    PMI2_Job_GetId(job, sizeof job);
    CHECK(PMI2_KVS_Put("key", "a value"));
    CHECK(PMI2_KVS_Fence());
    CHECK(PMI2_KVS_Get(job, PMI2_ID_NULL, "key", buffer, 64, &numbers[0]));
    CHECK(PMI2_Info_GetJobAttr("universeSize", buffer, 64, &numbers[0]));
    CHECK(PMI2_Info_GetJobAttrIntArray("array", &numbers[0], 4, &numbers[4], &numbers[5]));
    CHECK(PMI2_Info_PutNodeAttr("name", "value"));
    CHECK(PMI2_Info_GetNodeAttr("name", buffer, 64, &numbers[0], 0));
    CHECK(PMI2_Info_GetNodeAttrIntArray("localRanks", &numbers[0], 4, &numbers[4], &numbers[5]));
    CHECK(PMI2_Nameserv_publish("service", NULL, "port"));
    CHECK(PMI2_Nameserv_lookup("service", NULL, buffer, 64));
    CHECK(PMI2_Nameserv_unpublish("service", NULL));
    CHECK(PMI2_Finalize());
}

int main(int argc, char **argv) {
    if (argc > 1 && argv[1][0] == '1')
        first();
    else
        second();
    return faults != 0;
}
