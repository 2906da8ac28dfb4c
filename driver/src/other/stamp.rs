//! The stamp of an API server, on systems that do not show a process its own environ.

use std::io;

use crate::names::ServiceName;

/// What [`stamp_api_server`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says whether others can know this process"]
pub enum ApiServerStamp {
    /// The kernel shows the stamp. Never on this system.
    Stamped,
    /// The kernel does not show this process its own environ: nobody could tell whether a stamp is there, and none was set.
    Unverifiable,
}

/// The one service name that an API server has.
pub fn api_server_service() -> ServiceName {
    ServiceName::of_api_server()
}

/// Marks this process as the API server: not on this system. There is no exec, and nothing changes.
///
/// # Errors
/// None.
pub fn stamp_api_server() -> io::Result<ApiServerStamp> {
    Ok(ApiServerStamp::Unverifiable)
}
