//! The stamp of an API server, on systems that do not show a process its own environ.

use std::io;

use crate::names::ApiServerStamp;

/// Marks this process as the API server: not on this system. There is no exec, and nothing changes.
///
/// # Errors
/// None.
pub fn stamp_api_server() -> io::Result<ApiServerStamp> {
    Ok(ApiServerStamp::Unverifiable)
}
