/* Proves that a spawned job which has disconnected is no part of its spawner's failures.
 *     disconnect code    the child finalizes and returns 5
 *     disconnect joined  the child returns 5 without a disconnect, and the parent waits for it
 * The parent says so if it has outlived the child for a while. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int child(MPI_Comm parent, const char *mode)
{
    if (strcmp(mode, "joined"))
        MPI_Comm_disconnect(&parent);
    if (!strcmp(mode, "joined"))
        _exit(5);
    MPI_Finalize();
    return 5;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    char *args[] = { argv[1], NULL };

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (argc != 2)
        return 64;
    if (parent != MPI_COMM_NULL)
        return child(parent, argv[1]);
    MPI_Comm_spawn(argv[0], args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                   MPI_ERRCODES_IGNORE);
    if (strcmp(argv[1], "joined"))
        MPI_Comm_disconnect(&children);
    sleep(strcmp(argv[1], "joined") ? 3 : 60);
    printf("the parent goes on\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
