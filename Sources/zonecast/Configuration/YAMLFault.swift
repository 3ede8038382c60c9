/// Why a file cannot be read as YAML, and on which line, as the library's own words tell it.
///
/// They are `LINE:COLUMN: error: PART: while WHAT in line LINE, column COLUMN`, what was found then, and the line itself;
/// the error's type is not for us to see.
struct YAMLFault: CustomStringConvertible {
    /// From 1; `nil` where the words name none.
    private(set) var line: Int?
    private var reason: String

    init(_ error: any Error) {
        let lines = "\(error)".split(separator: "\n")
        let parts = lines.first?.split(separator: ":", maxSplits: 4).map { $0.drop { $0 == " " } } ?? []
        guard parts.count == 5, let line = Int(parts[0]), parts[2] == "error" else {
            reason = lines.joined(separator: " ")
            return
        }
        self.line = line
        var words = parts[4]
        if let place = words.firstRange(of: " in line ") {
            // What is never closed is found out at the end, and to be mended where it begins.
            let isOpen = ["a quoted scalar", "a flow "].contains { words[..<place.lowerBound].contains($0) }
            if isOpen { self.line = Int(words[place.upperBound...].prefix { $0.isNumber }) ?? line }
            words = words[..<place.lowerBound] + " " + (lines.dropFirst().first ?? "")
        }
        reason = String(words.last == ":" ? words.dropLast() : words)
    }

    /// What follows the file's name.
    var description: String {
        let place = line.map { "line \($0): this " } ?? ""
        return "\(place)is not YAML: \(reason). Write lines like  listen: 127.0.0.1:8080"
    }
}
