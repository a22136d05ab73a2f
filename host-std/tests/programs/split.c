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

int main(int argc, char **argv)
{
    int rank, len = 0;
    char line[512];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (unsigned at = 0; at < sizeof types / sizeof *types; at++) {
        MPI_Comm group;
        int size = 0;
        MPI_Comm_split_type(MPI_COMM_WORLD, types[at].type, 0, MPI_INFO_NULL, &group);
        if (group != MPI_COMM_NULL)
            MPI_Comm_size(group, &size);
        len += snprintf(line + len, sizeof line - len, " %s=%d", types[at].name, size);
    }
    printf("%d:%s\n", rank, line);
    MPI_Finalize();
    return 0;
}
