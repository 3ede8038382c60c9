import Foundation
import Wire

/// Files that commands and settings name, and standard input, read whole.
///
/// A byte order mark at the beginning is dropped: some editors and shells put one there, and it is no part of the text.
enum InputFile {
    /// `-` is standard input; `nil` where the file cannot be read.
    static func bytes(_ path: String) -> [UInt8]? {
        let data =
            path == "-" ? FileHandle.standardInput.readDataToEndOfFile() : FileManager.default.contents(atPath: path)
        return data.map { ByteOrderMark.dropped(from: [UInt8]($0)) }
    }

    /// The same as text.
    static func text(_ path: String) -> String? { bytes(path).map { String(decoding: $0, as: UTF8.self) } }

    /// The one word in a file that holds a secret, without the blanks and line ends around it.
    static func word(_ path: String) -> String? { text(path)?.trimmingCharacters(in: .whitespacesAndNewlines) }
}
