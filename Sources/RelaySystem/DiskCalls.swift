import Foundation

/// The calls with which the relay writes files other than SQLite's; a test replaces them by a disk that fails or loses
/// power.
///
/// Each returns what the system call of that name returns, and sets `errno`.
package struct DiskCalls: Sendable {
    package var open: @Sendable (_ path: String, _ flags: Int32) -> Int32
    package var write: @Sendable (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int
    package var sync: @Sendable (_ descriptor: Int32) -> Int32
    package var rename: @Sendable (_ path: String, _ target: String) -> Int32
    package var makeFolder: @Sendable (_ path: String) -> Int32
    package var link: @Sendable (_ path: String, _ target: String) -> Int32

    package init(
        open: @escaping @Sendable (_ path: String, _ flags: Int32) -> Int32,
        write: @escaping @Sendable (_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int,
        sync: @escaping @Sendable (_ descriptor: Int32) -> Int32,
        rename: @escaping @Sendable (_ path: String, _ target: String) -> Int32,
        makeFolder: @escaping @Sendable (_ path: String) -> Int32,
        link: @escaping @Sendable (_ path: String, _ target: String) -> Int32
    ) {
        self.open = open
        self.write = write
        self.sync = sync
        self.rename = rename
        self.makeFolder = makeFolder
        self.link = link
    }

    /// The system's calls; only the owner can access the files and folders.
    package static let system = DiskCalls(
        open: { Foundation.open($0, $1, 0o600) },
        write: { Foundation.write($0, $1.baseAddress, $1.count) },
        sync: { fsync($0) },
        rename: { Foundation.rename($0, $1) },
        makeFolder: { mkdir($0, 0o700) },
        link: { Foundation.link($0, $1) }
    )

    /// A call that failed.
    package struct Failure: Error, CustomStringConvertible {
        package var call: String
        package var number: Int32

        package init(_ call: String) {
            self.call = call
            number = errno
        }

        package var description: String { "\(call): \(String(cString: strerror(number)))" }
    }

    /// Creates the folders from `root`, which exists, down to `path`; returns when all names are on disk.
    ///
    /// Flushes existing folders too: the process that created them may have ended before it did.
    package func makeFolders(_ path: String, within root: String) throws {
        guard path.count > root.count else { return }
        let parent = (path as NSString).deletingLastPathComponent
        try makeFolders(parent, within: root)
        guard makeFolder(path) == 0 || errno == EEXIST else { throw Failure("mkdir") }
        try flush(parent)
    }

    /// Writes a file's content over itself and flushes it, so that what programs read is what a power cut would leave.
    ///
    /// A flush alone is not enough: after a failed one the system treats the unwritten pages as clean, and returns
    /// their content until it needs the memory. Does nothing if there is no such file.
    package func rewrite(_ path: String) throws {
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else {
            guard errno == ENOENT else { throw Failure("open") }
            return
        }
        defer { close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var offset: off_t = 0
        while true {
            let count = buffer.withUnsafeMutableBytes { pread(descriptor, $0.baseAddress, $0.count, offset) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Failure("read") }
            guard count > 0 else { break }
            guard lseek(descriptor, offset, SEEK_SET) == offset,
                buffer.withUnsafeBytes({ write(descriptor, UnsafeRawBufferPointer(rebasing: $0[..<count])) }) == count
            else { throw Failure("write") }
            offset += off_t(count)
        }
        guard sync(descriptor) == 0 else { throw Failure("fsync") }
    }

    /// Returns when the file, or the names in the folder, are on disk.
    package func flush(_ path: String) throws {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure("open") }
        defer { close(descriptor) }
        guard sync(descriptor) == 0 else { throw Failure("fsync") }
    }
}
