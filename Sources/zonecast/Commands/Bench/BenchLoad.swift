import ArgumentParser

/// The kinds of load.
enum BenchLoad: String, CaseIterable, ExpressibleByArgument {
    case writes
    case changes
    case notices
    case `public`
    case mixed

    /// The unit that is counted.
    var counted: String {
        switch self {
        case .writes: "writes"
        case .changes: "records"
        case .notices: "notices"
        case .public: "queries"
        case .mixed: "requests"
        }
    }

    /// A description of the operation that is timed.
    var timed: String {
        switch self {
        case .writes: "one record saved, on disk"
        case .changes: "one page of 200 records fetched"
        case .notices: "from the start of a save to its notice on a device"
        case .public: "one query answered"
        case .mixed: "one request: four fetches or queries, then a save"
        }
    }

    /// The database that the load uses.
    var database: String { self == .public ? "public" : "private" }

    /// The number of records created before the measurement.
    var prepared: Int {
        switch self {
        case .writes, .notices: 0
        case .changes: 2_000
        case .public, .mixed: 400
        }
    }
}
