/// Finds the first file in a `multipart/form-data` body, piece by piece, holding back no more than a boundary's length.
///
/// RFC 7578 and 2046. What stands before the first boundary, other fields of the form before the file, the part's own headers,
/// and all further parts are dropped.
package struct MultipartBody {
    private enum Stage {
        case preamble
        case headers
        case content
        case epilogue
    }

    /// A part's headers may be this long.
    private static let longestHeaders = 8 * 1024

    private let boundary: [UInt8]
    private var stage = Stage.preamble
    private var held: [UInt8] = []

    /// The content has ended where its boundary said.
    package private(set) var isComplete = false

    /// - Parameter contentType: The request's header; `nil` where it is not multipart or has no boundary.
    package init?(contentType: String) {
        let parts = contentType.split(separator: ";").map { $0.trimmedBlanks }
        guard parts.first?.lowercased() == "multipart/form-data" else { return nil }
        guard let given = parts.dropFirst().first(where: { $0.lowercased().hasPrefix("boundary=") }) else { return nil }
        var name = given.dropFirst("boundary=".count)
        if name.count > 1, name.hasPrefix("\""), name.hasSuffix("\"") { name = name.dropFirst().dropLast() }
        guard (1...70).contains(name.utf8.count) else { return nil }
        boundary = Array("\r\n--\(name)".utf8)
        // The first boundary may stand at the very beginning, without a line before it.
        held = [0x0D, 0x0A]
    }

    /// Takes a piece of the body and gives the content in it; `nil` if this is no such body.
    package mutating func take(_ piece: some Sequence<UInt8>) -> [UInt8]? {
        held.append(contentsOf: piece)
        var content: [UInt8] = []
        while true {
            switch stage {
            case .preamble:
                guard let found = held.firstRange(of: boundary) else {
                    dropAllBut(boundary.count - 1)
                    return content
                }
                held.removeSubrange(..<found.upperBound)
                stage = .headers
            case .headers:
                // The rest of the boundary's line counts as the first, empty or blank, line of the headers.
                // Whether a body is one must not depend on where it was cut into pieces.
                guard !held.starts(with: [0x2D, 0x2D]) else { return nil }
                guard let end = held.firstRange(of: [0x0D, 0x0A, 0x0D, 0x0A]) else {
                    return held.count > Self.longestHeaders + 3 ? nil : content
                }
                guard end.lowerBound <= Self.longestHeaders else { return nil }
                // Another field of the form ends where the next part begins, as a preamble does.
                stage = Self.isFile(held[..<end.lowerBound]) ? .content : .preamble
                held.removeSubrange(..<end.upperBound)
            case .content:
                if let found = held.firstRange(of: boundary) {
                    content.append(contentsOf: held[..<found.lowerBound])
                    held = []
                    isComplete = true
                    stage = .epilogue
                    return content
                }
                let safe = max(0, held.count - (boundary.count - 1))
                content.append(contentsOf: held[..<safe])
                held.removeSubrange(..<safe)
                return content
            case .epilogue:
                held = []
                return content
            }
        }
    }

    /// Whether a part with these headers is the file and no other field of the form.
    ///
    /// It has a file's name or a type of its own, which browsers give to files alone, or is called as OpenCloudKit calls it; one
    /// that says nothing of itself is taken for it.
    private static func isFile(_ headers: ArraySlice<UInt8>) -> Bool {
        let lines = headers.split { $0 == 0x0D || $0 == 0x0A }.map { String(decoding: $0, as: UTF8.self) }
        func line(_ name: String) -> String? { lines.first { $0.lowercased().hasPrefix(name) } }
        guard let disposition = line("content-disposition:"), line("content-type:") == nil else { return true }
        return parameters(of: disposition).contains { name, value in
            name == "filename" || name == "filename*" || (name == "name" && value == "files")
        }
    }

    /// What follows the first semicolon of a header; one in quotes parts nothing.
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
        if held.count > count { held.removeSubrange(..<(held.count - count)) }
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
