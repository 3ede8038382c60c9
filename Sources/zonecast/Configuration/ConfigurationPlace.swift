import Foundation
import RelayStore

/// The location of a configuration file, and how the file is replaced there.
///
/// Symbolic links are followed and kept. A file that cannot be replaced atomically, because it is mounted as a single
/// file or its folder is read-only, is written in place.
struct ConfigurationPlace {
    /// The path as the user gave it.
    private let name: String
    /// The path with all links resolved.
    let path: String

    init(_ name: String) {
        self.name = name
        var path = name.hasPrefix("/") ? name : FileManager.default.currentDirectoryPath + "/" + name
        // The system's own limit of links.
        for _ in 0..<40 {
            guard let next = try? FileManager.default.destinationOfSymbolicLink(atPath: path) else { break }
            path = next.hasPrefix("/") ? next : (path as NSString).deletingLastPathComponent + "/" + next
        }
        self.path = path
    }

    /// A text that can replace the file.
    struct Draft {
        /// The draft's path; its extension tells the reader that it is YAML.
        let path: String
        fileprivate let text: String
        fileprivate let place: ConfigurationPlace
        /// Whether the draft is beside the file and can replace it atomically.
        fileprivate let isBeside: Bool

        /// Replaces the file by the text.
        func publish() throws {
            if isBeside {
                guard rename(path, place.path) != 0 else { return }
                let fault = errno
                // A file that is mounted as a single file is busy.
                guard fault == EBUSY || fault == EXDEV || fault == EROFS else { throw place.failure(fault) }
            }
            try place.write(text)
        }

        /// Removes the draft.
        func remove() { unlink(path) }
    }

    /// Writes a text beside the file, or to the temporary folder if the file's folder is read-only.
    func draft(_ text: String) throws -> Draft {
        let old = FileStatus(path: path)
        let beside = path + ".new.yaml"
        if FileManager.default.createFile(atPath: beside, contents: Data(text.utf8)) {
            chmod(beside, old?.permissions ?? 0o600)
            if let old { _ = chown(beside, old.owner, old.group) }
            return Draft(path: beside, text: text, place: self, isBeside: true)
        }
        let fault = errno
        let elsewhere = NSTemporaryDirectory() + "zonecast-\(UUID().uuidString).yaml"
        guard old != nil, access(path, W_OK) == 0, FileManager.default.createFile(atPath: elsewhere, contents: nil)
        else {
            throw failure(fault)
        }
        chmod(elsewhere, 0o600)
        try Data(text.utf8).write(to: URL(fileURLWithPath: elsewhere))
        return Draft(path: elsewhere, text: text, place: self, isBeside: false)
    }

    /// Writes into the file itself, and restores the old text if the new one cannot be written completely.
    private func write(_ text: String) throws {
        guard let file = FileHandle(forUpdatingAtPath: path) else { throw failure(errno) }
        defer { try? file.close() }
        func put(_ content: Data) throws {
            try file.seek(toOffset: 0)
            try file.write(contentsOf: content)
            try file.truncate(atOffset: UInt64(content.count))
            try file.synchronize()
        }
        do {
            let old = try file.readToEnd() ?? Data()
            do { try put(Data(text.utf8)) } catch {
                try? put(old)
                throw error
            }
        } catch {
            throw CommandFailure(.failed, "\(name) cannot be written: \(FolderAccess.reason(error)).")
        }
    }

    private func failure(_ fault: Int32) -> CommandFailure {
        CommandFailure(
            .failed,
            "\(name) cannot be written: \(String(cString: strerror(fault))). Run this as its owner, or name another file with --config."
        )
    }
}
