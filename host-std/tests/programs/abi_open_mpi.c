/* A model of Open MPI's library of the standard's binary interface (MPI 5.0, chapter 20), built as
 * libmpi_abi.so.1 around an Open MPI that has none: it needs Open MPI's own library, and replaces the numbers of
 * handles. It has what the programs of these tests call, and nothing more. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

static MPI_Comm comm(MPI_Comm given)
{
    if ((uintptr_t)given != 0x101)
        abort();
    return MPI_COMM_WORLD;
}

static MPI_Datatype type(MPI_Datatype given)
{
    if ((uintptr_t)given != 0x209)
        abort();
    return MPI_INT;
}

int MPI_Init(int *argc, char ***argv)
{
    return PMPI_Init(argc, argv);
}

int MPI_Finalize(void)
{
    return PMPI_Finalize();
}

int MPI_Comm_rank(MPI_Comm c, int *rank)
{
    return PMPI_Comm_rank(comm(c), rank);
}

int MPI_Comm_size(MPI_Comm c, int *size)
{
    return PMPI_Comm_size(comm(c), size);
}

int MPI_Get_processor_name(char *name, int *length)
{
    return PMPI_Get_processor_name(name, length);
}

int MPI_Send(const void *from, int count, MPI_Datatype t, int to, int tag, MPI_Comm c)
{
    return PMPI_Send(from, count, type(t), to, tag, comm(c));
}

/* The programs ignore each status, and the null pointer that says so is that of Open MPI. */
int MPI_Recv(void *to, int count, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *status)
{
    return PMPI_Recv(to, count, type(t), from, tag, comm(c), status);
}

int MPI_Sendrecv(const void *out, int outs, MPI_Datatype out_type, int to, int out_tag, void *in,
                 int ins, MPI_Datatype in_type, int from, int in_tag, MPI_Comm c, MPI_Status *status)
{
    return PMPI_Sendrecv(out, outs, type(out_type), to, out_tag, in, ins, type(in_type), from, in_tag,
                         comm(c), status);
}
