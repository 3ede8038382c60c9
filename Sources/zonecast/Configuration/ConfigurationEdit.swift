import Foundation

/// Sets keys in a configuration file and preserves everything else in it.
struct ConfigurationEdit {
    private(set) var lines: [String]
    private let lineEnd: String

    init(_ text: String) {
        lines = ConfigurationFile.lines(of: text).map(String.init)
        lineEnd = text.contains("\r\n" as Character) ? "\r\n" : "\n"
        if lines.last == "" { lines.removeLast() }
    }

    var text: String { lines.map { $0 + lineEnd }.joined() }

    /// Replaces the key's value on its line, or appends the key; `nil` removes the key.
    mutating func set(_ key: String, to value: String?) {
        guard let entry = ConfigurationFile(text).entries.first(where: { $0.name == key }) else {
            if let value { lines.append("\(key): \(ConfigurationText.written(value))") }
            return
        }
        let index = entry.line - 1
        let old = lines[index]
        // The items of a list are on the lines that follow the key.
        let end = lines[(index + 1)...].firstIndex { !$0.drop(while: { $0 == " " }).hasPrefix("-") } ?? lines.count
        guard let colon = Self.colon(in: old) else { return }
        let new = value.map { ["\(old[...colon]) \(ConfigurationText.written($0))"] } ?? []
        lines.replaceSubrange(index..<end, with: new)
    }

    /// Returns the colon that ends the key, which may be quoted.
    private static func colon(in line: String) -> String.Index? {
        line.indices.first { index in
            guard line[index] == ":" else { return false }
            let next = line.index(after: index)
            return next == line.endIndex || line[next] == " "
        }
    }

    /// Sets keys in the file at `path`, creating it if it is missing.
    ///
    /// The file is changed only if a relay could start with the result.
    ///
    /// - Parameters:
    ///   - values: Keys with their new values; `nil` removes a key.
    ///   - path: The configuration file.
    ///   - check: Checks the resulting settings; throws a `CommandFailure` to reject them.
    /// - Throws: `CommandFailure` if the file cannot be written or the result is invalid.
    static func apply(
        _ values: [(key: String, value: String?)],
        to path: String,
        check: (ServeSettings) throws -> Void
    ) async throws {
        let old = FileManager.default.contents(atPath: path)
        var edit = ConfigurationEdit(old.map { String(decoding: $0, as: UTF8.self) } ?? "")
        for (key, value) in values { edit.set(key, to: value) }
        var facts = stat()
        let isThere = stat(path, &facts) == 0
        // In the same folder, so that it can replace the old file in one step; the extension selects the YAML parser.
        let fresh = path + ".new.yaml"
        defer { unlink(fresh) }
        guard FileManager.default.createFile(atPath: fresh, contents: Data(edit.text.utf8)) else {
            throw CommandFailure(
                .failed,
                "\(path) cannot be written: \(String(cString: strerror(errno))). Run this as its owner, or name another file with --config."
            )
        }
        chmod(fresh, isThere ? facts.st_mode & 0o777 : 0o600)
        if isThere { _ = chown(fresh, facts.st_uid, facts.st_gid) }
        let reading: ConfigurationReading
        do {
            reading = try await ConfigurationReading(flags: [:], environment: [:], file: fresh)
        } catch var failure as CommandFailure {
            // Name the user's file in the error: the temporary one is gone by then.
            let (its, known) = (URL(fileURLWithPath: fresh), URL(fileURLWithPath: path))
            failure.description.replace(its.lastPathComponent, with: known.lastPathComponent)
            throw failure
        }
        for (key, value) in values {
            let found = ConfigurationKeys.all.first { $0.name == key }?.read(reading.settings)
            guard value == nil || found == value else {
                throw CommandFailure(
                    .failed,
                    "\(path): this command cannot set \(key) in this file. Edit the file by hand."
                )
            }
        }
        try check(reading.settings)
        guard rename(fresh, path) == 0 else {
            throw CommandFailure(.failed, "\(path) cannot be written: \(String(cString: strerror(errno))).")
        }
    }
}
