/// An incremental parser that finds the first file in a `multipart/form-data` body.
///
/// Buffers at most a boundary's length of content. Discards the preamble, other form fields before the file, the part's
/// header fields, and all further parts. See RFC 7578 and RFC 2046.
package struct MultipartBody {
    private enum Stage {
        case preamble
        case headers
        case content
        case epilogue
    }

    /// The maximum length of a part's header fields.
    private static let longestHeaders = 8 * 1024

    private let boundary: [UInt8]
    private var stage = Stage.preamble
    private var buffered: [UInt8] = []

    /// Whether the content has ended with its boundary.
    package private(set) var isComplete = false

    /// Creates a parser.
    ///
    /// - Parameter contentType: The header of the request; the result is `nil` if it is not multipart or has no
    ///   boundary.
    package init?(contentType: String) {
        let parts = contentType.split(separator: ";").map { $0.trimmedBlanks }
        guard parts.first?.lowercased() == "multipart/form-data" else { return nil }
        guard let given = parts.dropFirst().first(where: { $0.lowercased().hasPrefix("boundary=") }) else { return nil }
        var name = given.dropFirst("boundary=".count)
        if name.count > 1, name.hasPrefix("\""), name.hasSuffix("\"") { name = name.dropFirst().dropLast() }
        guard (1...70).contains(name.utf8.count) else { return nil }
        boundary = Array("\r\n--\(name)".utf8)
        // The first boundary may be at the very beginning, without a preceding line break.
        buffered = [0x0D, 0x0A]
    }

    /// Parses a piece of the body and returns the content in it; returns `nil` if the body is malformed.
    package mutating func take(_ piece: some Sequence<UInt8>) -> [UInt8]? {
        buffered.append(contentsOf: piece)
        var content: [UInt8] = []
        while true {
            switch stage {
            case .preamble:
                guard let found = buffered.firstRange(of: boundary) else {
                    dropAllBut(boundary.count - 1)
                    return content
                }
                buffered.removeSubrange(..<found.upperBound)
                stage = .headers
            case .headers:
                // The rest of the boundary's line counts as the first, empty or blank, line of the header. The result
                // must not depend on how the body was split into pieces.
                guard !buffered.starts(with: [0x2D, 0x2D]) else { return nil }
                guard let end = buffered.firstRange(of: [0x0D, 0x0A, 0x0D, 0x0A]) else {
                    return buffered.count > Self.longestHeaders + 3 ? nil : content
                }
                guard end.lowerBound <= Self.longestHeaders else { return nil }
                // Another form field ends where the next part begins, like a preamble.
                stage = Self.isFile(buffered[..<end.lowerBound]) ? .content : .preamble
                buffered.removeSubrange(..<end.upperBound)
            case .content:
                if let found = buffered.firstRange(of: boundary) {
                    content.append(contentsOf: buffered[..<found.lowerBound])
                    buffered = []
                    isComplete = true
                    stage = .epilogue
                    return content
                }
                let safe = max(0, buffered.count - (boundary.count - 1))
                content.append(contentsOf: buffered[..<safe])
                buffered.removeSubrange(..<safe)
                return content
            case .epilogue:
                buffered = []
                return content
            }
        }
    }

    /// Returns whether a part with these header fields is the file and not another form field.
    ///
    /// A file has a file name or a content type, which browsers send only for files, or the field name that
    /// OpenCloudKit uses. A part without a Content-Disposition header counts as a file too.
    private static func isFile(_ headers: ArraySlice<UInt8>) -> Bool {
        let lines = headers.split { $0 == 0x0D || $0 == 0x0A }.map { String(decoding: $0, as: UTF8.self) }
        func line(_ name: String) -> String? { lines.first { $0.lowercased().hasPrefix(name) } }
        guard let disposition = line("content-disposition:"), line("content-type:") == nil else { return true }
        return parameters(of: disposition).contains { name, value in
            name == "filename" || name == "filename*" || (name == "name" && value == "files")
        }
    }

    /// Splits a header at its semicolons, except those in quotes, and returns its parameters.
    private static func parameters(of header: String) -> [(name: String, value: String)] {
        var isQuoted = false
        let parts = header.split { character in
            if character == "\"" { isQuoted.toggle() }
            return character == ";" && !isQuoted
        }
        return parts.dropFirst().map { part in
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = sides.count == 2 ? sides[1].trimmedBlanks.filter { $0 != "\"" } : ""
            return ((sides.first ?? "").trimmedBlanks.lowercased(), String(value))
        }
    }

    private mutating func dropAllBut(_ count: Int) {
        if buffered.count > count { buffered.removeSubrange(..<(buffered.count - count)) }
    }
}

extension Substring {
    fileprivate var trimmedBlanks: Substring {
        var rest = self
        while rest.first == " " || rest.first == "\t" { rest.removeFirst() }
        while rest.last == " " || rest.last == "\t" { rest.removeLast() }
        return rest
    }
}
