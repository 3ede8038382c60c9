/// Parses the YAML library's error text into a line number and a reason.
///
/// The text has the form `LINE:COLUMN: error: PART: while WHAT in line LINE, column COLUMN`, followed by what was found
/// and the line itself. The error's type is not public.
struct YAMLFault: CustomStringConvertible {
    /// The line, from 1; `nil` if the text names none.
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
            // An unclosed quote or bracket is reported at the end of the file; name the line where it begins.
            let isOpen = ["a quoted scalar", "a flow "].contains { words[..<place.lowerBound].contains($0) }
            if isOpen { self.line = Int(words[place.upperBound...].prefix { $0.isNumber }) ?? line }
            words = words[..<place.lowerBound] + " " + (lines.dropFirst().first ?? "")
        }
        reason = String(words.last == ":" ? words.dropLast() : words)
    }

    /// The error text that follows the file name.
    var description: String {
        let place = line.map { "line \($0): this " } ?? ""
        return "\(place)is not YAML: \(reason). Write lines like  listen: 127.0.0.1:8080"
    }
}
