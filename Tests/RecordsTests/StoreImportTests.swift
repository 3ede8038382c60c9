import Foundation
import Testing

/// Only the wiring knows in what kind of store the data is; everything else works on the protocols of `RelayCore`.
@Suite struct StoreImportTests {
    /// The target of the store on SQLite.
    private static let store = "SQLiteStore"

    /// Files and folders that may import it, each with the reason.
    private static let allowed = [
        // Wiring: the only places that choose a store.
        "Sources/zonecast/Terminal/DataFolder.swift", "Sources/ZoneTesting/Relay/RunningRelay.swift",
        "Tests/StoreTesting/SQLiteTestHome.swift",
        // A move is between both kinds of stores.
        "Sources/zonecast/Commands/Cluster/MoveRoutes.swift",
        // Tests of the store itself.
        "Sources/\(store)/", "Tests/\(store)Tests/",
        // Disks that fail under SQLite's files, and what must hold then.
        "Tests/DiskTrials/", "Tests/DiskTests/",
        // The simulator's checker reads the rows themselves, since the protocols are what it judges.
        "Tests/Simulation/Checker/StoreSnapshot.swift",
        // They count the SQL statements of requests.
        "Tests/RelayAPITests/Endpoints/CascadeTests.swift", "Tests/RelayAPITests/Sharing/HierarchyCostTests.swift",
        "Tests/RelayAPITests/Sharing/SharingCostTests.swift",
        // Data folders that a test damages, or gives another layout, by SQL.
        "Tests/zonecastTests/UpgradeTests.swift", "Tests/zonecastTests/Doctor/DoctorTests.swift",
        // Moves from a file to a database and back.
        "Tests/PostgresStoreTests/Moves/", "Tests/StoreBenchmark/ImportRow.swift",
        // Folders and archives of backups of SQLite files.
        "Tests/zonecastTests/BackupArchiveTests.swift",
    ]

    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardizedFileURL

    /// Returns the Swift files that import the store, by their paths in the repository.
    private static func importers() throws -> [String] {
        var found: [String] = []
        for folder in ["Sources", "Tests"] {
            let start = root.appendingPathComponent(folder)
            let files = FileManager.default.enumerator(at: start, includingPropertiesForKeys: nil)
            while let file = files?.nextObject() as? URL {
                if file.lastPathComponent == ".build" { files?.skipDescendants() }
                guard file.pathExtension == "swift" else { continue }
                let text = try String(contentsOf: file, encoding: .utf8)
                guard imports(text) else { continue }
                found.append(String(file.standardizedFileURL.path.dropFirst(root.path.count + 1)))
            }
        }
        return found.sorted()
    }

    private static func imports(_ text: String) -> Bool {
        text.split(separator: "\n").contains { line in
            let words = line.split(separator: " ")
            return words.last.map(String.init) == store && words.dropLast().last == "import"
        }
    }

    @Test("no file imports the store on SQLite but those on the list, and those that do are on it for a reason")
    func importsAreListed() throws {
        let importers = try Self.importers()
        let others = importers.filter { file in !Self.allowed.contains { file.hasPrefix($0) } }
        #expect(others.isEmpty, "\(others.joined(separator: "\n"))")
        let unused = Self.allowed.filter { place in
            place != "Sources/\(Self.store)/" && !importers.contains { $0.hasPrefix(place) }
        }
        #expect(unused.isEmpty, "these no longer import it: \(unused)")
    }

    @Test(
        "an import is found with any access level",
        arguments: ["import \(store)", "package import \(store)", "@testable import \(store)"]
    )
    func importLines(line: String) {
        #expect(Self.imports("import Foundation\n\(line)\nimport Testing\n"))
        #expect(!Self.imports("import \(Self.store)Tests\n// import of \(Self.store).\n"))
    }
}
