import ArgumentParser

/// What a bench does again and again.
enum BenchLoad: String, CaseIterable, ExpressibleByArgument {
    case writes
    case changes
    case notices
    case `public`
    case mixed

    /// What is counted.
    var counted: String {
        switch self {
        case .writes: "writes"
        case .changes: "records"
        case .notices: "notices"
        case .public: "queries"
        case .mixed: "requests"
        }
    }

    /// What is timed.
    var timed: String {
        switch self {
        case .writes: "one record saved, on disk"
        case .changes: "one page of 200 records fetched"
        case .notices: "from a save's begin to its notice at a device"
        case .public: "one query answered"
        case .mixed: "one request: four fetches or queries, then a save"
        }
    }

    /// The database that it works in.
    var database: String { self == .public ? "public" : "private" }

    /// Records that are there before it begins.
    var prepared: Int {
        switch self {
        case .writes, .notices: 0
        case .changes: 2_000
        case .public, .mixed: 400
        }
    }
}
