//! What a child is given beyond what it runs, as far as this system has it.

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) own_group: bool,
    /// The first thing that was asked for and that this system has not: the spawn is refused, nothing is left out in silence.
    pub(crate) lacking: Option<&'static str>,
    #[cfg(unix)]
    pub(crate) join: Option<i32>,
    #[cfg(unix)]
    pub(crate) gid: Option<u32>,
    #[cfg(unix)]
    pub(crate) uid: Option<u32>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            own_group: true,
            lacking: None,
            #[cfg(unix)]
            join: None,
            #[cfg(unix)]
            gid: None,
            #[cfg(unix)]
            uid: None,
        }
    }
}
