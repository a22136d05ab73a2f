/* Sizes of the groups into which MPI_Comm_split_type divides the job, for each object that ranks may share. */
#include <mpi.h>
#include <stdio.h>

static const struct {
    const char *name;
    int type;
} types[] = {
    {"shared", MPI_COMM_TYPE_SHARED},
#ifdef OMPI_MPI_H
    {"hwthread", OMPI_COMM_TYPE_HWTHREAD}, {"core", OMPI_COMM_TYPE_CORE},
    {"l1", OMPI_COMM_TYPE_L1CACHE},        {"l2", OMPI_COMM_TYPE_L2CACHE},
    {"l3", OMPI_COMM_TYPE_L3CACHE},        {"socket", OMPI_COMM_TYPE_SOCKET},
    {"numa", OMPI_COMM_TYPE_NUMA},         {"node", OMPI_COMM_TYPE_NODE},
#endif
};

#ifdef MPICH
/* Names of objects, for which MPICH has no types. */
static const char *const objects[] = {
    "hwthread", "core", "l1cache", "l2cache", "l3cache", "socket", "numanode", NULL,
};
#endif

static int size_of(int type, MPI_Info info)
{
    MPI_Comm group;
    int size = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, info, &group);
    if (group != MPI_COMM_NULL)
        MPI_Comm_size(group, &size);
    return size;
}

int main(int argc, char **argv)
{
    int rank, len = 0;
    char line[512];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (unsigned at = 0; at < sizeof types / sizeof *types; at++) {
        int size = size_of(types[at].type, MPI_INFO_NULL);
        len += snprintf(line + len, sizeof line - len, " %s=%d", types[at].name, size);
    }
#ifdef MPICH
    for (const char *const *name = objects; *name != NULL; name++) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_hw_resource_type", *name);
        MPI_Info_set(info, "shmem_topo", *name);
        len += snprintf(line + len, sizeof line - len, " %s=%d/%d", *name,
                        size_of(MPI_COMM_TYPE_HW_GUIDED, info), size_of(MPI_COMM_TYPE_SHARED, info));
        MPI_Info_free(&info);
    }
    len += snprintf(line + len, sizeof line - len, " unguided=%d",
                    size_of(MPI_COMM_TYPE_HW_UNGUIDED, MPI_INFO_NULL));
#endif
    printf("%d:%s\n", rank, line);
    MPI_Finalize();
    return 0;
}
