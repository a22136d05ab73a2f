// Where a message is described: the section of the book, and the source of its codec.

/// By wire format: the page, its sections with the names of the exchanges they describe, and the codec. A name without a
/// section of its own leads to the page. A test of xtask compares all of it with the pages and the sources.
export const SECTIONS = {
  lines: {
    page: "docs/pmi1.html", codec: "pmi_core/wire/pmi1/line.rs",
    sections: {
      init: ["init"], initack: ["initack"], "sizes-and-names": ["get_maxes", "get_my_kvsname", "get_appnum", "get_universe_size"],
      "put-and-get": ["put", "get"], barrier: ["barrier_in"], "names-of-services": ["publish_name", "lookup_name", "unpublish_name"],
      spawn: ["spawn"], finalize: ["finalize"], abort: ["abort"],
    },
  },
  frames: {
    page: "docs/pmi2.html", codec: "pmi_core/wire/pmi2/request.rs",
    sections: {
      opening: ["init", "fullinit"], "job-getid": ["get_my_kvsname"], "kvs-put-kvs-get-kvs-fence": ["put", "get", "barrier_in"],
      attributes: ["info-putnodeattr", "info-getnodeattr", "info-getjobattr"], names: ["publish_name", "lookup_name", "unpublish_name"],
      spawn: ["spawn"], finalize: ["finalize"], abort: ["abort"],
    },
  },
  pmix: {
    page: "docs/pmix-wire.html", codec: "pmi_core/wire/pmix/request.rs",
    sections: {
      greeting: ["greeting"], "job-level-information": ["REQ"], commit: ["COMMIT"], fence: ["barrier_in"], get: ["get", "REFRESH_CACHE", "RESOLVE_PEERS", "RESOLVE_NODE"],
      "published-data": ["publish_name", "lookup_name", "unpublish_name"], spawn: ["spawn"], "connect-and-disconnect": ["job-connect", "job-disconnect"],
      events: ["NOTIFY", "REGEVENTS", "DEREGEVENTS", "notice"], groups: ["GROUP_CONSTRUCT", "GROUP_DESTRUCT", "GROUP_LEAVE"],
      "queries-and-control": ["QUERY", "JOB_CONTROL", "LOG", "MONITOR", "GET_CREDENTIAL", "VALIDATE_CRED"], "output-and-input": ["IOF_PULL", "IOF_PUSH", "IOF_DEREG"],
      finalize: ["finalize"], abort: ["abort"],
    },
  },
  nodes: {
    page: "docs/nodes-wire.html", codec: "pmi_core/wire/nodes.rs",
    sections: {
      attachment: ["attach", "welcome", "refuse", "chain"], messages: ["message", "settled"], "collective-operations": ["contribution", "ended", "resend"], "signs-of-life": ["ping", "head-lost"],
    },
  },
};

/// The links of a message within the book, each a title and an address: none outside of it, or for bytes of no format.
export function linksOf({ dialect, name }) {
  const { book } = document.documentElement.dataset;
  const format = book && SECTIONS[dialect];
  if (!format) return [];
  const section = Object.keys(format.sections).find((section) => format.sections[section].includes(name));
  return [["In the book", `${book}${format.page}${section ? `#${section}` : ""}`], ["Source of the codec", `${book}rustdoc/src/${format.codec}.html`]];
}
