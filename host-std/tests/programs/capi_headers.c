/* Declares all functions twice, by the headers of Slurm and by those of this project: prototypes that differ do
 * not compile. Codes and structures are compared besides. It is compiled only. */
#include <stddef.h>

#define CODES(code) \
    code(SUCCESS) code(FAIL) code(ERR_INIT) code(ERR_NOMEM) code(ERR_INVALID_ARG) code(ERR_INVALID_KEY) \
    code(ERR_INVALID_KEY_LENGTH) code(ERR_INVALID_VAL) code(ERR_INVALID_VAL_LENGTH) \
    code(ERR_INVALID_LENGTH) code(ERR_INVALID_NUM_ARGS) code(ERR_INVALID_ARGS) \
    code(ERR_INVALID_NUM_PARSED) code(ERR_INVALID_KEYVALP) code(ERR_INVALID_SIZE)

#include <slurm/pmi.h>
typedef PMI_keyval_t slurm_keyval;
#define code(name) slurm_##name = PMI_##name,
enum { CODES(code) slurm_kvs = PMI_ERR_INVALID_KVS, slurm_true = PMI_TRUE, slurm_false = PMI_FALSE };
#undef code
#undef PMI_H
/* Two types of one name cannot be compared, so functions with a structure are declared under another. */
#define PMI_keyval_t own_keyval
#define PMI_Spawn_multiple own_Spawn_multiple
#define PMI_Parse_option own_Parse_option
#define PMI_Args_to_keyval own_Args_to_keyval
#define PMI_Free_keyvals own_Free_keyvals
#include <pmi.h>
#undef PMI_keyval_t
#define code(name) _Static_assert(slurm_##name == PMI_##name, #name);
CODES(code)
#undef code
_Static_assert(slurm_kvs == PMI_ERR_INVALID_KVS && slurm_true == PMI_TRUE && slurm_false == PMI_FALSE, "");

#define SAME(one, other, field) \
    _Static_assert(offsetof(one, field) == offsetof(other, field), #field); \
    _Static_assert(sizeof(one) == sizeof(other), #one)
SAME(slurm_keyval, own_keyval, key);
SAME(slurm_keyval, own_keyval, val);

#include <slurm/pmi2.h>
typedef MPID_Info slurm_info;
typedef PMI2_Connect_comm_t slurm_comm;
#define code(name) slurm2_##name = PMI2_##name,
enum { CODES(code) slurm2_other = PMI2_ERR_OTHER, slurm2_null = PMI2_ID_NULL,
       slurm2_keys = PMI2_MAX_KEYLEN, slurm2_values = PMI2_MAX_VALLEN };
#undef code
#undef PMI2_H_INCLUDED
#define MPID_Info own_info
#define PMI2_Connect_comm own_comm
#define PMI2_Connect_comm_t own_comm_t
#define PMI2_Job_Spawn own_Job_Spawn
#define PMI2_Job_Connect own_Job_Connect
#define PMI2_Nameserv_publish own_publish
#define PMI2_Nameserv_lookup own_lookup
#define PMI2_Nameserv_unpublish own_unpublish
#include <pmi2.h>
#define code(name) _Static_assert(slurm2_##name == PMI2_##name, #name);
CODES(code)
#undef code
_Static_assert(slurm2_other == PMI2_ERR_OTHER && slurm2_null == PMI2_ID_NULL, "");
_Static_assert(slurm2_keys == PMI2_MAX_KEYLEN && slurm2_values == PMI2_MAX_VALLEN, "");
SAME(slurm_info, own_info, next);
SAME(slurm_info, own_info, key);
SAME(slurm_info, own_info, value);
SAME(slurm_comm, own_comm_t, read);
SAME(slurm_comm, own_comm_t, write);
SAME(slurm_comm, own_comm_t, ctx);
SAME(slurm_comm, own_comm_t, isMaster);
