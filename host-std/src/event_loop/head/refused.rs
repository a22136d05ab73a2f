//! Options that work on one node only, which are rejected before anything starts.

use crate::settings::Settings;

/// The reason to reject the settings, if there is one.
pub(super) fn option(settings: &Settings) -> Option<String> {
    let Settings { job, watching, .. } = settings;
    let given = [
        (job.websocket.is_some(), "--websocket"),
        (watching.report_uri.is_some(), "--report-uri"),
        (watching.is_system_server, "--system-server"),
    ];
    let (_, name) = given.into_iter().find(|(is_given, _)| *is_given)?;
    Some(format!("'{name}' works on one node only; leave it out, or run all ranks on this machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_one_node_are_rejected_by_name() {
        assert_eq!(option(&Settings::default()), None);
        let mut settings = Settings::default();
        settings.job.websocket = Some(String::new());
        assert!(
            option(&settings).is_some_and(|why| why.starts_with("'--websocket' works on one node"))
        );
    }
}
