//! Search of the system's loader for the libraries of a program, without running the program.
//!
//! The order is that of the loader: `LD_PRELOAD`, then for each name the paths in the files that led to it
//! (`DT_RPATH`), `LD_LIBRARY_PATH`, the paths of the file itself (`DT_RUNPATH`), the loader's cache and its
//! default directories; libraries for other machines are passed over. Variants for extensions of a
//! processor (`glibc-hwcaps`) are not looked for: they need the same libraries. Libraries that a program
//! loads while it runs are not seen, nor statically linked ones.
//!
//! Spec: ld.so(8), "DESCRIPTION" and "Secure-execution mode".

use crate::image::Image;
use crate::loader_cache::LoaderCache;
use crate::system_file;
use rustix::fs::getxattr;
use rustix::process::{getegid, geteuid};
use std::cell::OnceCell;
use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Surroundings of a program in which the loader searches.
#[derive(Debug, Default)]
pub struct Search {
    /// List of directories of the user, in the form of `LD_LIBRARY_PATH`.
    user: OsString,
    /// List of libraries that come first, in the form of `LD_PRELOAD`.
    preloaded: OsString,
    /// Directory in which the program starts; empty for that of this process.
    directory: PathBuf,
    /// Read on first use: programs that need the C library alone have none.
    cache: OnceCell<LoaderCache>,
    /// Directories configured by an administrator, likewise.
    configured: OnceCell<Vec<PathBuf>>,
}

/// Libraries of a program, in the order in which the loader loads them.
#[derive(Debug)]
pub struct Walk<'a> {
    search: &'a Search,
    /// The program first.
    images: Vec<Loaded>,
    /// Names of libraries that were returned or loaded.
    names: BTreeSet<String>,
    queue: VecDeque<Needed>,
    is_privileged: OnceCell<bool>,
}

#[derive(Debug)]
struct Loaded {
    image: Image,
    /// Number of the image that needs this one; `None` for the program.
    needed_by: Option<usize>,
}

/// A library that a program needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Its name in the file that needs it, or in `LD_PRELOAD`: a path if it has a slash.
    pub name: String,
    /// True if `LD_PRELOAD` names it. Without it, a program starts nevertheless.
    pub is_preloaded: bool,
    /// Number of the image that needs it.
    by: usize,
}

impl Search {
    /// Search with the directories of the user in `list`, which has the form of `LD_LIBRARY_PATH`.
    pub fn of(list: &OsStr) -> Self {
        Self { user: list.to_owned(), ..Self::default() }
    }

    /// Search by the variables of this process.
    pub fn here() -> Self {
        Self::by(&|name| env::var_os(name))
    }

    /// Search by the variables of a program, whose values `variable` returns.
    pub fn by(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let preloaded = variable("LD_PRELOAD").unwrap_or_default();
        Self { preloaded, ..Self::of(&variable("LD_LIBRARY_PATH").unwrap_or_default()) }
    }

    /// The same for a program that starts in `directory`, where relative paths begin.
    #[must_use]
    pub fn in_directory(self, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..self }
    }

    fn cache(&self) -> &LoaderCache {
        self.cache.get_or_init(LoaderCache::read)
    }

    fn configured(&self) -> &[PathBuf] {
        self.configured.get_or_init(|| configured(Path::new("/etc/ld.so.conf"), 0))
    }
}

impl<'a> Walk<'a> {
    /// Walk that begins with the libraries of a program. `None` for a script, and any other file that is no
    /// program.
    pub fn of(program: &Path, search: &'a Search) -> Option<Self> {
        let image = Image::read(program)?;
        let preloaded = search.preloaded.as_bytes().split(|byte| b" :\t\n".contains(byte));
        let needed = |name: String, is_preloaded| Needed { name, is_preloaded, by: 0 };
        let queue = preloaded
            .filter(|name| !name.is_empty())
            .map(|name| needed(String::from_utf8_lossy(name).into_owned(), true))
            .chain(image.needed.iter().map(|name| needed(name.clone(), false)))
            .collect();
        Some(Self {
            search,
            images: vec![Loaded { image, needed_by: None }],
            names: BTreeSet::new(),
            queue,
            is_privileged: OnceCell::new(),
        })
    }

    /// The next library that was not returned before; `None` at the end, and after more of them than any
    /// program has.
    pub fn next_needed(&mut self) -> Option<Needed> {
        loop {
            let needed = self.queue.pop_front()?;
            if self.names.len() >= LIBRARIES_MAX {
                return None;
            }
            if self.names.insert(needed.name.clone()) {
                return Some(needed);
            }
        }
    }

    /// Reads the file that the loader takes for a name; `None` if it finds none. From then on the file counts
    /// under its own name, too.
    pub fn load(&mut self, needed: &Needed) -> Option<Image> {
        let image = self.find(needed)?;
        self.names.extend(image.name.clone());
        Some(image)
    }

    /// Continues with the libraries that `image` needs, which was loaded for `needed`.
    pub fn follow(&mut self, needed: &Needed, image: Image) {
        let by = self.images.len();
        let names = image.needed.iter().cloned();
        self.queue.extend(names.map(|name| Needed { name, is_preloaded: false, by }));
        self.images.push(Loaded { image, needed_by: Some(needed.by) });
    }

    /// The program and the libraries that were followed.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.images.iter().map(|loaded| loaded.image.path.as_path())
    }

    fn find(&self, needed: &Needed) -> Option<Image> {
        let Needed { name, is_preloaded, by } = needed;
        // Of these the loader takes files of the system alone, with the bit of a user.
        if *is_preloaded && self.is_privileged() {
            return None;
        }
        let fitting = |path: PathBuf| {
            Image::read(&path).filter(|image| image.machine == self.images[0].image.machine)
        };
        if name.contains('/') {
            let paths = self.expanded(name.as_ref(), 0);
            return paths.into_iter().find_map(fitting);
        }
        let own = &self.images[*by].image;
        let mut above = Vec::new();
        let mut at = Some(*by).filter(|_| own.then.is_empty());
        while let Some(number) = at {
            let Loaded { image, needed_by } = &self.images[number];
            above.extend(self.directories(&image.first, number));
            at = *needed_by;
        }
        let user = || match self.is_privileged() {
            true => Vec::new(),
            false => self.of_user(),
        };
        let cached = || self.search.cache().paths(name);
        let place = |directory: PathBuf| directory.join(name);
        let said = above.into_iter().chain(user()).chain(self.directories(&own.then, *by));
        let usual = DIRECTORIES.iter().map(PathBuf::from);
        let configured = || self.search.configured().iter().cloned();
        None.or_else(|| said.map(place).find_map(fitting))
            .or_else(|| cached().into_iter().find_map(fitting))
            .or_else(|| usual.map(place).find_map(fitting))
            .or_else(|| configured().map(place).find_map(fitting))
    }

    fn of_user(&self) -> Vec<PathBuf> {
        let items = self.search.user.as_bytes().split(|byte| b":;".contains(byte));
        // An empty list has one empty item, which is no directory.
        let items = items.filter(|_| !self.search.user.is_empty()).take(DIRECTORIES_MAX);
        items.flat_map(|item| self.expanded(OsStr::from_bytes(item), 0)).collect()
    }

    /// Directories in lists of the image with this number.
    fn directories(&self, lists: &[OsString], number: usize) -> Vec<PathBuf> {
        let items = lists.iter().flat_map(|list| list.as_bytes().split(|byte| *byte == b':'));
        let items = items.take(DIRECTORIES_MAX).map(OsStr::from_bytes);
        items.flat_map(|item| self.expanded(item, number)).collect()
    }

    /// Paths that an item of a list can mean: its variables have the values of the image with this number,
    /// and one of them depends on how the loader was built.
    ///
    /// Spec: ld.so(8), "Dynamic string tokens".
    fn expanded(&self, item: &OsStr, number: usize) -> Vec<PathBuf> {
        let place = |path: &Path| self.search.directory.join(path);
        if !item.as_bytes().contains(&b'$') {
            return vec![place(Path::new(item))];
        }
        let mut text = item.to_string_lossy().into_owned();
        for (name, with_braces) in [("$ORIGIN", "${ORIGIN}"), ("$PLATFORM", "${PLATFORM}")] {
            if !text.contains(name) && !text.contains(with_braces) {
                continue;
            }
            let value = match name {
                "$ORIGIN" if self.is_privileged() => return Vec::new(),
                "$ORIGIN" => self.origin(number).to_string_lossy().into_owned(),
                _ => env::consts::ARCH.to_owned(),
            };
            text = text.replace(with_braces, &value).replace(name, &value);
        }
        let all = LIB.iter().map(|lib| text.replace("${LIB}", lib).replace("$LIB", lib));
        let mut paths: Vec<PathBuf> = all.map(|path| place(Path::new(&path))).collect();
        paths.dedup();
        paths
    }

    /// Directory of an image: for the program where its file is, whatever link leads to it.
    fn origin(&self, number: usize) -> PathBuf {
        let path = &self.images[number].image.path;
        let path = match number {
            0 => fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
            _ => path.clone(),
        };
        path.parent().unwrap_or(Path::new("/")).to_owned()
    }

    /// True if the program has permissions that its user lacks: then the loader ignores the directories and
    /// libraries of the user, and those beside the program.
    fn is_privileged(&self) -> bool {
        *self.is_privileged.get_or_init(|| is_privileged(&self.images[0].image.path))
    }
}

fn is_privileged(program: &Path) -> bool {
    let Ok(meta) = program.metadata() else { return false };
    let of_user = meta.mode() & 0o4000 != 0 && meta.uid() != geteuid().as_raw();
    let of_group = meta.mode() & 0o2010 == 0o2010 && meta.gid() != getegid().as_raw();
    let has_capabilities = || {
        let len = getxattr(program, "security.capability", &mut [0_u8; 0]);
        !geteuid().is_root() && len.is_ok_and(|len| len > 0)
    };
    of_user || of_group || has_capabilities()
}

/// Directories named by a configuration file of the loader and by the files it includes.
fn configured(file: &Path, depth: u32) -> Vec<PathBuf> {
    let text = system_file::read(file).unwrap_or_default();
    let mut directories = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        match line.strip_prefix(b"include ") {
            Some(pattern) if depth < INCLUDES_MAX => {
                let pattern = Path::new(OsStr::from_bytes(pattern.trim_ascii()));
                for file in included(pattern) {
                    directories.extend(configured(&file, depth + 1));
                }
            }
            Some(_) => {}
            None if line.is_empty() => {}
            None => directories.push(PathBuf::from(OsStr::from_bytes(line))),
        }
    }
    directories
}

/// Files that match a pattern: one file, or all with its suffix in a directory.
fn included(pattern: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let Some(ending) = name.as_bytes().strip_prefix(b"*") else { return vec![pattern.to_owned()] };
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let is = |path: &PathBuf| path.as_os_str().as_bytes().ends_with(ending);
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is).collect();
    files.sort_unstable();
    files
}

/// Library directories of distributions.
const DIRECTORIES: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
];

/// Values of `$LIB` in loaders of distributions.
const LIB: [&str; 4] = ["lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib"];

/// More libraries than any program has.
const LIBRARIES_MAX: usize = 512;

/// More directories than any list has.
const DIRECTORIES_MAX: usize = 256;

/// Bound for configuration files that include each other.
const INCLUDES_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::made::Made;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory with programs and libraries, in which a search begins.
    struct Files {
        root: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            Self { root: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().join(name)
        }

        fn add(&self, name: &str, made: Made<'_>) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, made.bytes()).unwrap();
        }

        /// Files of the libraries of `program`, below the directory; `-` for one that is missing.
        fn found(&self, program: &str, search: Search) -> Vec<String> {
            let search = search.in_directory(self.root.path());
            let mut walk = Walk::of(&self.path(program), &search).unwrap();
            let mut found = Vec::new();
            while let Some(needed) = walk.next_needed() {
                found.push(match walk.load(&needed) {
                    Some(image) => {
                        let below = image.path.strip_prefix(self.root.path()).unwrap();
                        let below = below.display().to_string();
                        walk.follow(&needed, image);
                        below
                    }
                    None => "-".to_owned(),
                });
            }
            found
        }
    }

    fn with(name: &'static str, value: &str) -> Search {
        let value = OsString::from(value);
        Search::by(&|wanted| (wanted == name).then(|| value.clone()))
    }

    fn needs<'a>(needed: &'a [&'a str]) -> Made<'a> {
        Made { needed, ..Made::default() }
    }

    #[test]
    fn directories_of_the_user_stand_behind_older_paths_of_a_file_and_before_newer_ones() {
        let files = Files::new();
        for place in ["user", "own"] {
            files.add(&format!("{place}/libx.so"), Made::default());
        }
        files.add("old", Made { rpath: Some("own"), ..needs(&["libx.so"]) });
        files.add("new", Made { runpath: Some("own"), ..needs(&["libx.so"]) });
        let user = || with("LD_LIBRARY_PATH", "nowhere;user");
        assert_eq!(files.found("old", user()), ["own/libx.so"]);
        assert_eq!(files.found("new", user()), ["user/libx.so"]);
        assert_eq!(files.found("new", Search::default()), ["own/libx.so"]);
    }

    #[test]
    fn older_paths_count_for_libraries_of_libraries_and_newer_ones_do_not() {
        let files = Files::new();
        files.add("own/libx.so", needs(&["liby.so"]));
        files.add("own/liby.so", Made::default());
        files.add("old", Made { rpath: Some("own"), ..needs(&["libx.so"]) });
        files.add("new", Made { runpath: Some("own"), ..needs(&["libx.so"]) });
        assert_eq!(files.found("old", Search::default()), ["own/libx.so", "own/liby.so"]);
        assert_eq!(files.found("new", Search::default()), ["own/libx.so", "-"]);
        // A library with paths of the newer kind has these alone.
        files.add("own/libx.so", Made { runpath: Some("else"), ..needs(&["liby.so"]) });
        assert_eq!(files.found("old", Search::default()), ["own/libx.so", "-"]);
    }

    #[test]
    fn place_of_a_program_is_where_its_file_is_and_that_of_a_library_where_it_was_found() {
        let files = Files::new();
        files.add("lib/libx.so", Made { runpath: Some("${ORIGIN}/more"), ..needs(&["liby.so"]) });
        files.add("lib/more/liby.so", Made::default());
        files.add("bin/program", Made { runpath: Some("$ORIGIN/../lib"), ..needs(&["libx.so"]) });
        symlink("bin/program", files.path("link")).unwrap();
        let root = files.root.path().canonicalize().unwrap();
        let expected = ["lib/libx.so", "lib/more/liby.so"].map(|name| root.join(name));
        let search = Search::default();
        let mut walk = Walk::of(&files.path("link"), &search).unwrap();
        for path in expected {
            let needed = walk.next_needed().unwrap();
            let image = walk.load(&needed).unwrap();
            assert_eq!(image.path.canonicalize().unwrap(), path);
            walk.follow(&needed, image);
        }
    }

    #[test]
    fn library_for_another_machine_and_broken_file_are_passed_over() {
        let files = Files::new();
        files.add("other/libx.so", Made { machine: 183, ..Made::default() });
        fs::create_dir(files.path("broken")).unwrap();
        fs::write(files.path("broken/libx.so"), "INPUT(libx.so.1)").unwrap();
        files.add("right/libx.so", Made::default());
        files.add("program", Made { runpath: Some("other:broken:right"), ..needs(&["libx.so"]) });
        assert_eq!(files.found("program", Search::default()), ["right/libx.so"]);
    }

    #[test]
    fn preloaded_library_comes_first_and_stands_for_the_one_of_its_name() {
        let files = Files::new();
        files.add("own/libx.so.1", Made::default());
        files.add("mine.so", Made { name: Some("libx.so.1"), ..needs(&["libno-such.so"]) });
        files.add("program", Made { runpath: Some("own"), ..needs(&["libx.so.1"]) });
        let preloaded = || with("LD_PRELOAD", "nowhere.so ./mine.so:");
        assert_eq!(files.found("program", Search::default()), ["own/libx.so.1"]);
        assert_eq!(files.found("program", preloaded()), ["-", "mine.so", "-"]);
    }

    #[test]
    fn variables_of_the_user_say_nothing_about_a_program_with_permissions_of_others() {
        let files = Files::new();
        files.add("user/libx.so", Made::default());
        files.add("own/libx.so", Made::default());
        files.add("program", Made { runpath: Some("$ORIGIN/own"), ..needs(&["libx.so"]) });
        let user = || with("LD_LIBRARY_PATH", "user");
        assert_eq!(files.found("program", user()), ["user/libx.so"]);
        assert_eq!(files.found("program", Search::default()), ["own/libx.so"]);
        let program = files.path("program");
        if !geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(&program, Some(1), Some(1)).unwrap();
        for mode in [0o4755, 0o2755] {
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(files.found("program", user()), ["-"], "{mode:o}");
            assert_eq!(files.found("program", Search::default()), ["-"], "{mode:o}");
        }
        // Without the permission to execute, the bit of a group locks a file.
        fs::set_permissions(&program, fs::Permissions::from_mode(0o2745)).unwrap();
        assert_eq!(files.found("program", user()), ["user/libx.so"]);
    }

    #[test]
    fn libraries_that_need_each_other_end() {
        let files = Files::new();
        files.add("own/libx.so", needs(&["liby.so", "libx.so"]));
        files.add("own/liby.so", needs(&["libx.so", "program"]));
        let chain: Vec<String> = (0..2 * LIBRARIES_MAX).map(|at| format!("lib{at}.so")).collect();
        let chain = Vec::from_iter(chain.iter().map(String::as_str));
        files.add("program", Made { rpath: Some("own"), ..needs(&["libx.so"]) });
        assert_eq!(files.found("program", Search::default()), ["own/libx.so", "own/liby.so", "-"]);
        files.add("program", needs(&chain));
        assert_eq!(files.found("program", Search::default()).len(), LIBRARIES_MAX);
    }

    #[test]
    fn files_of_the_loader_include_others() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fs::create_dir(directory.join("conf.d")).unwrap();
        let main = directory.join("ld.so.conf");
        let shown = directory.display();
        fs::write(
            &main,
            format!("# directories\n/first\ninclude {shown}/conf.d/*.conf\n/last # here\n"),
        )
        .unwrap();
        fs::write(
            directory.join("conf.d/a.conf"),
            format!("/second\ninclude {shown}/ld.so.conf\n"),
        )
        .unwrap();
        fs::write(directory.join("conf.d/b.txt"), "/never\n").unwrap();
        let found = configured(&main, 0);
        assert_eq!(found[..2], [PathBuf::from("/first"), PathBuf::from("/second")]);
        assert!(
            found.contains(&PathBuf::from("/last")) && !found.contains(&PathBuf::from("/never"))
        );
    }
}
