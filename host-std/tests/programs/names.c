/* Publishes a name, or looks it up, in a program under a launcher of its own.
 *     names publish      publishes a port, prints a line, waits for a line of input, and unpublishes it
 *     names lookup       looks it up and prints it */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "", line[80];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0 && argc > 1 && strcmp(argv[1], "publish") == 0) {
        if (MPI_Publish_name("harbour", MPI_INFO_NULL, "quay-12") != MPI_SUCCESS)
            return 65;
        printf("published\n");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin))
            return 66;
        if (MPI_Unpublish_name("harbour", MPI_INFO_NULL, "quay-12") != MPI_SUCCESS)
            return 67;
    } else if (rank == 0) {
        int found = MPI_Lookup_name("harbour", MPI_INFO_NULL, port) == MPI_SUCCESS;
        printf("the port is %s\n", found ? port : "unknown");
    }
    MPI_Finalize();
    return 0;
}
