/* Proves that options of the standard's mpiexec reach the library. Prints the kinds of memory that it supports,
 * and sends to a rank that does not exist, which the initial error handler decides about: "send returned", or the
 * end of the job. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char kinds[1024] = "";
    int there = 0, size;
    MPI_Info info;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_info(MPI_COMM_WORLD, &info);
    MPI_Info_get(info, "mpi_memory_alloc_kinds", sizeof kinds - 1, kinds, &there);
    MPI_Info_free(&info);
    printf("kinds %s\n", there ? kinds : "none");
    fflush(stdout);
    if (MPI_Send(&there, 1, MPI_INT, size, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
        printf("send returned\n");
    MPI_Finalize();
    return 0;
}
