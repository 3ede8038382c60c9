import Foundation
import Sockets

/// Runs the requested rows, one after the other.
@main
enum Main {
    private static let rows: [(name: String, run: @Sendable (inout Bench) throws -> Void)] = [
        ("write-one", WriteRows.oneClient),
        ("write-64", WriteRows.manyClients),
        ("write-zones", WriteRows.manyZones),
        ("write-batch", WriteRows.batches),
        ("write-watched", SubscriptionRows.uninterested),
        ("write-fields", SchemaRows.fields),
        ("asset-upload", AssetRows.upload),
        ("asset-download", AssetRows.download),
        ("fetch", ReadRows.firstFetch),
        ("fetch-memory", ReadRows.flatMemory),
        ("changes", ReadRows.changes),
        ("shared-feed", SharingRows.feed),
        ("shared-write", SharingRows.write),
        ("query", QueryRows.selective),
        ("notice-burst", NoticeRows.burst),
        ("notice-zones", NoticeRows.zones),
        ("notice-latency", NoticeRows.latency),
        ("notice-idle", ConnectionRows.oneAmongMany),
        ("idle", ConnectionRows.idle),
        ("cluster-nodes", ClusterRows.nodes),
        ("cluster-notice", ClusterRows.noticeAcross),
        ("cluster-sockets", ClusterRows.sockets),
    ]

    static func main() {
        signal(SIGPIPE, SIG_IGN)
        do {
            try run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            FileHandle.standardError.write(Data("\(error)\n".utf8))
            exit(1)
        }
    }

    private static func run(_ arguments: [String]) throws {
        if arguments.first == "bare-server" { return try BareProcess.serve(arguments.dropFirst()) }
        let options = try Options(arguments)
        if options.isHelp { return print(Options.usage) }
        if options.isList { return print(rows.map(\.name).joined(separator: "\n")) }
        if let unknown = options.only.first(where: { name in !rows.contains { $0.name == name } }) {
            throw LoadError.missing("There is no row \(unknown); --list names them.")
        }
        var bench = try Bench(options)
        defer { bench.removeFolder() }
        for row in rows where options.only.isEmpty || options.only.contains(row.name) {
            bench.report.log("\(row.name) …")
            do {
                try row.run(&bench)
            } catch {
                bench.report.skip(row.name, because: "\(error)")
            }
            bench.endRow()
        }
        try bench.report.finish()
    }
}
