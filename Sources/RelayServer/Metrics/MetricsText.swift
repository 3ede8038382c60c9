/// Metrics in Prometheus's text format.
struct MetricsText {
    private(set) var text = ""

    typealias Labels = KeyValuePairs<String, String>

    /// Starts a metric family; its samples follow.
    mutating func family(_ name: String, _ type: String, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    /// Writes a sample; whole numbers have no fraction.
    mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Double) {
        let list = labels.map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",")
        let number = Int64(exactly: value).map { "\($0)" } ?? "\(value)"
        text += "\(name)\(list.isEmpty ? "" : "{\(list)}") \(number)\n"
    }

    mutating func sample(_ name: String, _ labels: Labels = [:], _ value: some CustomStringConvertible) {
        text += "\(name)\(Self.list(labels)) \(value)\n"
    }

    /// Writes the samples of a histogram.
    mutating func samples(_ name: String, _ labels: [(String, String)] = [], of histogram: Histogram) {
        var count: UInt64 = 0
        let own = labels.map { "\($0)=\"\(Self.escaped($1))\"," }.joined()
        for (bound, more) in zip(histogram.bounds.map { "\($0)" } + ["+Inf"], histogram.counts) {
            count += more
            text += "\(name)_bucket{\(own)le=\"\(bound)\"} \(count)\n"
        }
        let list = own.isEmpty ? "" : "{\(own.dropLast())}"
        text += "\(name)_sum\(list) \(histogram.sum)\n\(name)_count\(list) \(count)\n"
    }

    private static func list(_ labels: Labels) -> String {
        labels.isEmpty ? "" : "{" + labels.map { "\($0)=\"\(escaped($1))\"" }.joined(separator: ",") + "}"
    }

    private static func escaped(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}
