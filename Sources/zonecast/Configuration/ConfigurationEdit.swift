import Foundation
import RelayCore
import RelaySystem

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

    /// Replaces the key's value on its line or in its list, or appends the key; `nil` removes the key.
    ///
    /// Comments stay. A comment beside a value that is removed moves to a line of its own.
    mutating func set(_ key: String, to value: String?) {
        guard let entry = ConfigurationFile(text).entries.first(where: { $0.name == key }) else {
            if let value { lines.append("\(key): \(ConfigurationText.written(value))") }
            return
        }
        let line = EditedLine(lines[entry.line - 1])
        let list = listLines(after: entry.line - 1)
        guard let value else {
            lines.replaceSubrange(
                (entry.line - 1)..<list.upperBound,
                with: line.leftover + lines[list].flatMap(Self.leftover)
            )
            return removeEmptyParents(of: key)
        }
        guard list.isEmpty || value.isEmpty else {
            return lines.replaceSubrange(list, with: Self.items(lines[list], changedTo: ConfigurationKey.items(value)))
        }
        lines.replaceSubrange(
            (entry.line - 1)..<list.upperBound,
            with: [line.replacing(with: ConfigurationText.written(value))] + lines[list].flatMap(Self.leftover)
        )
    }

    // MARK: Lists

    /// Returns the lines of the list that is a key's value, with the comments and empty lines among them.
    private func listLines(after index: Int) -> Range<Int> {
        var end = index + 1
        for next in lines.indices.dropFirst(index + 1) {
            let line = EditedLine(lines[next])
            if line.isItem { end = next + 1 }
            // Comments and empty lines may be followed by more items of the list, or by the next key.
            guard line.isItem || line.isBlank else { break }
        }
        return (index + 1)..<end
    }

    /// Returns the lines of a list with other items; kept items keep their lines, and new ones follow the last.
    private static func items(_ old: ArraySlice<String>, changedTo wanted: [String]) -> [String] {
        var missing = wanted
        var indent = "  "
        var new = old.flatMap { text -> [String] in
            let line = EditedLine(text)
            guard line.isItem else { return [text] }
            indent = line.indent
            guard let index = missing.firstIndex(of: line.item) else { return line.leftover }
            missing.remove(at: index)
            return [text]
        }
        new += missing.map { "\(indent)- \(ConfigurationText.written($0))" }
        return new
    }

    private static func leftover(_ text: String) -> [String] {
        let line = EditedLine(text)
        return line.isBlank ? [text] : line.leftover
    }

    // MARK: Mappings

    /// Removes the mappings that have no key left, since a key without a value is not a setting.
    private mutating func removeEmptyParents(of key: String) {
        var path = key.split(separator: ".").dropLast()
        while !path.isEmpty {
            let name = path.joined(separator: ".")
            guard let entry = ConfigurationFile(text).entries.first(where: { $0.name == name }) else { return }
            lines.replaceSubrange((entry.line - 1)..<entry.line, with: EditedLine(lines[entry.line - 1]).leftover)
            path.removeLast()
        }
    }

    // MARK: Files

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
        let place = ConfigurationFileReplacement(path)
        let old = FileManager.default.contents(atPath: path)
        var edit = ConfigurationEdit(old.map { String(decoding: $0, as: UTF8.self) } ?? "")
        // The values as the settings keep them, since the check below compares with these.
        let values = values.map { name, value in
            let known = ConfigurationKeys.all.first { $0.name == name }
            return (key: name, value: value, kept: value.flatMap { known?.normalized($0) })
        }
        for (key, value, kept) in values { edit.set(key, to: kept ?? value) }
        let draft = try place.draft(edit.text)
        defer { draft.remove() }
        let reading: ConfigurationReading
        do {
            reading = try await ConfigurationReading(flags: [:], environment: [:], file: draft.path)
        } catch var failure as CommandFailure {
            // Name the user's file in the error: the draft is gone by then.
            let (its, known) = (URL(fileURLWithPath: draft.path), URL(fileURLWithPath: path))
            failure.description.replace(its.lastPathComponent, with: known.lastPathComponent)
            throw failure
        }
        for (key, value, kept) in values {
            let found = ConfigurationKeys.all.first { $0.name == key }?.read(reading.settings)
            guard value == nil || found == kept else {
                throw CommandFailure(
                    .failed,
                    "\(path): this command cannot set \(key) in this file. Edit the file by hand."
                )
            }
        }
        try check(reading.settings)
        try draft.publish()
    }
}

/// A line of a configuration file in its parts.
private struct EditedLine {
    /// The leading spaces.
    let indent: String
    /// The key including its colon, empty without a key.
    private let key: String
    /// The trimmed text between the key and the comment.
    let value: String
    /// The comment with the spaces before it, empty without a comment.
    private let comment: String

    init(_ line: String) {
        var content = line[...]
        var comment: Substring = ""
        if let mark = ConfigurationFile.comment(in: content) {
            comment = content[mark...]
            content = content[..<mark]
        }
        let trimmed = content.reversed().drop { $0 == " " || $0 == "\t" }.count
        self.comment = comment.isEmpty ? "" : String(content.dropFirst(trimmed)) + String(comment)
        content = content.prefix(trimmed)
        indent = String(content.prefix { $0 == " " })
        // The key may itself be quoted.
        let colon = content.indices.first { index in
            guard content[index] == ":" else { return false }
            let next = content.index(after: index)
            return next == content.endIndex || content[next] == " "
        }
        let isItem = content.dropFirst(indent.count).first == "-"
        let start = isItem ? nil : colon
        key = start.map { String(content[...$0]) } ?? ""
        value = String(content.dropFirst(start == nil ? indent.count : key.count).drop { $0 == " " || $0 == "\t" })
    }

    var isItem: Bool { key.isEmpty && (value == "-" || value.hasPrefix("- ")) }
    var isBlank: Bool { key.isEmpty && value.isEmpty }

    /// A list item without quotes.
    var item: String {
        let text = value.dropFirst().drop { $0 == " " }
        guard text.count >= 2, let quote = text.first, quote == text.last, "\"'".contains(quote) else {
            return String(text)
        }
        let inside = text.dropFirst().dropLast()
        return quote == "'" ? String(inside).replacing("''", with: "'") : String(inside)
    }

    /// The comment on a line of its own.
    var leftover: [String] { comment.isEmpty ? [] : [indent + comment.drop { $0 == " " || $0 == "\t" }] }

    func replacing(with value: String) -> String { "\(key) \(value)\(comment)" }
}

/// The location of a configuration file, and how the file is replaced there.
///
/// Symbolic links are followed and kept. A file that cannot be replaced atomically, because it is mounted as a single
/// file or its folder is read-only, is written in place.
struct ConfigurationFileReplacement {
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
        fileprivate let place: ConfigurationFileReplacement
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
