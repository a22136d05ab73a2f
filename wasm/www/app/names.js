// Three names of each operation: the word of scripts, the words on the wire, and the function of the API.

/// By word: the operation in PMI-1, PMI-2 and PMIx, each as `[wire, API]`.
export const NAMES = {
  open: [["cmd=init", "PMI_Init"], ["cmd=init, fullinit", "PMI2_Init"], ["greeting, REQ", "PMIx_Init"]],
  init: [["cmd=init", "PMI_Init"], ["cmd=init", "PMI2_Init"], ["greeting", "PMIx_Init"]],
  put: [["cmd=put", "PMI_KVS_Put"], ["cmd=kvs-put", "PMI2_KVS_Put"], ["no message", "PMIx_Put"]],
  commit: [["no message", "PMI_KVS_Commit"], ["no message", ""], ["COMMIT", "PMIx_Commit"]],
  fence: [["cmd=barrier_in", "PMI_Barrier"], ["cmd=kvs-fence", "PMI2_KVS_Fence"], ["FENCENB", "PMIx_Fence"]],
  get: [["cmd=get", "PMI_KVS_Get"], ["cmd=kvs-get", "PMI2_KVS_Get"], ["GETNB", "PMIx_Get"]],
  finalize: [["cmd=finalize", "PMI_Finalize"], ["cmd=finalize", "PMI2_Finalize"], ["FINALIZE", "PMIx_Finalize"]],
  abort: [["cmd=abort", "PMI_Abort"], ["cmd=abort", "PMI2_Abort"], ["ABORT", "PMIx_Abort"]],
  maxes: [["cmd=get_maxes", "PMI_KVS_Get_key_length_max"], null, null],
  name: [["cmd=get_my_kvsname", "PMI_KVS_Get_my_name"], ["cmd=job-getid", "PMI2_Job_GetId"], null],
  appnum: [["cmd=get_appnum", "PMI_Get_appnum"], null, ["no message", "PMIx_Get"]],
  universe: [["cmd=get_universe_size", "PMI_Get_universe_size"], null, ["no message", "PMIx_Get"]],
  publish: [["cmd=publish_name", "PMI_Publish_name"], ["cmd=name-publish", "PMI2_Nameserv_publish"], ["PUBLISHNB", "PMIx_Publish"]],
  lookup: [["cmd=lookup_name", "PMI_Lookup_name"], ["cmd=name-lookup", "PMI2_Nameserv_lookup"], ["LOOKUPNB", "PMIx_Lookup"]],
  unpublish: [["cmd=unpublish_name", "PMI_Unpublish_name"], ["cmd=name-unpublish", "PMI2_Nameserv_unpublish"], ["UNPUBLISHNB", "PMIx_Unpublish"]],
  "node-put": [null, ["cmd=info-putnodeattr", "PMI2_Info_PutNodeAttr"], null],
  "node-get": [null, ["cmd=info-getnodeattr", "PMI2_Info_GetNodeAttr"], null],
  "put-local": [null, null, ["no message", "PMIx_Put"]],
  "put-remote": [null, null, ["no message", "PMIx_Put"]],
  "get-of": [null, null, ["GETNB", "PMIx_Get"]],
};

/// What a lane is called: `rank 3`, or `node 3` in a tree.
export const who = ({ unit, lanes }, lane) => `${unit} ${lanes[lane].name}`;

/// The ends of a message: of a tree, the upper one may be a node.
export function ends(story, { lane, peer, up }) {
  const both = [who(story, lane), peer == null ? story.hub : who(story, peer)];
  return up ? both : both.reverse();
}

/// The family of a dialect: 0 for PMI-1, 1 for PMI-2, 2 for PMIx.
export const familyOf = (dialect) => (dialect === "pmix" ? 2 : dialect.startsWith("2") ? 1 : 0);

/// `cmd=barrier_in · PMI_Barrier` for a word in a dialect; empty if it has no further names.
export function otherNames(word, dialect) {
  return (NAMES[word]?.[familyOf(dialect)] ?? []).filter(Boolean).join(" · ");
}
