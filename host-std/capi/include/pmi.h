/* Interface of PMI-1, implemented by libpmi.so.0 of the PMI family in Rust.
 *
 * Specification: RFC 13 of Flux, and for the functions that it calls dropped, the header of MPICH before
 * 2011. Every function returns one of the codes below. Before PMI_Init, after PMI_Finalize and in a child
 * that was forked while PMI was in use, that is PMI_ERR_INIT.
 *
 * All functions may be called by several threads at once; their requests take turns.
 */
#ifndef PMI_H
#define PMI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS 0
#define PMI_FAIL (-1)
#define PMI_ERR_INIT 1
#define PMI_ERR_NOMEM 2
#define PMI_ERR_INVALID_ARG 3
#define PMI_ERR_INVALID_KEY 4
#define PMI_ERR_INVALID_KEY_LENGTH 5
#define PMI_ERR_INVALID_VAL 6
#define PMI_ERR_INVALID_VAL_LENGTH 7
#define PMI_ERR_INVALID_LENGTH 8
#define PMI_ERR_INVALID_NUM_ARGS 9
#define PMI_ERR_INVALID_ARGS 10
#define PMI_ERR_INVALID_NUM_PARSED 11
#define PMI_ERR_INVALID_KEYVALP 12
#define PMI_ERR_INVALID_SIZE 13
#define PMI_ERR_INVALID_KVS 14

typedef int PMI_BOOL;
#define PMI_TRUE 1
#define PMI_FALSE 0

/* A key and its value: a hint of a spawn, or a value that the new job finds in its key-value space. */
typedef struct PMI_keyval_t {
    const char *key;
    char *val;
} PMI_keyval_t;

/* Opens the session of the process. A second call counts one more user; PMI_Finalize ends the session when
 * it was called as often. Afterwards PMI_Init fails, unless the process has no launcher. */
int PMI_Init(int *spawned);
int PMI_Initialized(PMI_BOOL *initialized);
int PMI_Finalize(void);

/* Prints the message, ends the job, and exits with the code. Does not return. */
int PMI_Abort(int exit_code, const char error_msg[]);

/* Job and process. Universe size and application number are -1 if the server does not know them. */
int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
int PMI_Get_universe_size(int *size);
int PMI_Get_appnum(int *appnum);

/* Ranks on the node of the process. The array has at least as many elements as the size of the clique. */
int PMI_Get_clique_size(int *size);
int PMI_Get_clique_ranks(int ranks[], int length);

/* Waits for all processes of the job. Values that were put and committed before are visible then. */
int PMI_Barrier(void);

/* Sizes of buffers for names, keys and values; the terminating NUL counts. */
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);

/* Key-value space of the job. A value and its NUL must fit into the buffer, else PMI_ERR_INVALID_LENGTH. A
 * missing key is PMI_ERR_INVALID_KEY. */
int PMI_KVS_Get_my_name(char kvsname[], int length);
int PMI_KVS_Put(const char kvsname[], const char key[], const char value[]);
int PMI_KVS_Commit(const char kvsname[]);
int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length);

/* Services. The buffer for a port has PMI_KVS_Get_value_length_max bytes. */
int PMI_Publish_name(const char service_name[], const char port[]);
int PMI_Unpublish_name(const char service_name[]);
int PMI_Lookup_name(const char service_name[], char port[]);

/* Starts processes as a job of their own. A null pointer ends each list of arguments. The array of errors has
 * one element for each process, or is null; it is written also if the spawn fails. */
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizes[], const PMI_keyval_t *info_keyval_vectors[],
                       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[], int errors[]);

/* Other names of functions above. */
int PMI_Get_id(char id_str[], int length);
int PMI_Get_kvs_domain_id(char id_str[], int length);
int PMI_Get_id_length_max(int *length);

/* Optional functions. A job has one key-value space, so PMI_KVS_Create and PMI_KVS_Destroy return PMI_FAIL.
 * The iteration returns PMI_FAIL with servers that have no request for it; an empty key ends it. */
int PMI_KVS_Create(char kvsname[], int length);
int PMI_KVS_Destroy(const char kvsname[]);
int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len);
int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len);

/* Optional functions: options -pmi-KEY VALUE and -pmi-KEY=VALUE of a command line as hints of a spawn. */
int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp, int *size);
int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size);
int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size);
int PMI_Get_options(char *str, int *length);

#ifdef __cplusplus
}
#endif

#endif
