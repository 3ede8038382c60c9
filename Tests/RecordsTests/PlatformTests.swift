import Foundation
import Testing

/// `Deploy/guides/platforms.md` lists the conditional code that no build on Linux compiles.
@Suite struct PlatformTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardizedFileURL

    /// The builds that are made on Linux, by the names that conditions test.
    private static let builds: [Set<String>] = [
        ["Linux", "FoundationNetworking", "CLibWebSockets", "Glibc", "DEBUG", "Postgres", "TestStores"],
        ["Linux", "FoundationNetworking", "CLibWebSockets", "Glibc"],
        ["Linux", "FoundationNetworking", "CLibWebSockets", "Musl"],
    ]

    /// Returns whether a condition of `&&`, `||`, `!`, `os`, `canImport` and `DEBUG` holds in a build.
    private static func holds(_ condition: some StringProtocol, in build: Set<String>) -> Bool {
        condition.components(separatedBy: "||").contains { terms in
            terms.components(separatedBy: "&&").allSatisfy { term in
                let term = term.trimmingCharacters(in: .whitespaces)
                let name = term.replacing(/os\(|canImport\(|\)|!/, with: "")
                return build.contains(name) != term.hasPrefix("!")
            }
        }
    }

    /// Returns the number of lines that are not empty and are in no build.
    static func unbuiltLines(of source: String) -> Int {
        /// For each open condition and each build: whether an earlier branch was taken, and whether this one is.
        var open: [[(taken: Bool, isActive: Bool)]] = []
        var count = 0
        for line in source.split(separator: "\n") {
            let text = line.trimmingCharacters(in: .whitespaces)
            if text.hasPrefix("#if ") {
                open.append(
                    builds.map { build in
                        let holds = holds(text.dropFirst(4), in: build)
                        return (holds, holds)
                    }
                )
            } else if text.hasPrefix("#elseif ") || text == "#else" {
                let branches = open.removeLast()
                open.append(
                    zip(branches, builds).map { branch, build in
                        let isActive = !branch.taken && (text == "#else" || holds(text.dropFirst(8), in: build))
                        return (branch.taken || isActive, isActive)
                    }
                )
            } else if text == "#endif" {
                open.removeLast()
            } else if !text.isEmpty,
                !builds.indices.contains(where: { build in open.allSatisfy { $0[build].isActive } })
            {
                count += 1
            }
        }
        return count
    }

    @Test("the list of code that is not built on Linux is complete and correct")
    func theListMatchesTheSources() throws {
        let page = try String(
            contentsOf: Self.root.appendingPathComponent("Deploy/guides/platforms.md"),
            encoding: .utf8
        )
        let sources = Self.root.appendingPathComponent("Sources")
        let files = FileManager.default.enumerator(atPath: sources.path)?.allObjects ?? []
        var wanted: Set<String> = []
        for case let file as String in files where file.hasSuffix(".swift") && !file.contains("/.build/") {
            let source = try String(contentsOf: sources.appendingPathComponent(file), encoding: .utf8)
            let lines = Self.unbuiltLines(of: source)
            guard lines > 0 else { continue }
            wanted.insert(lines > 3 ? "| `Sources/\(file)` | \(lines) |" : "- `Sources/\(file)`")
        }
        let listed = Set(
            page.split(separator: "\n").compactMap { line in
                line.firstMatch(of: /^(?:\| `Sources\/[^ ]+` \| \d+ \||- `Sources\/[^ ]+`)/).map { String($0.output) }
            }
        )
        #expect(wanted.subtracting(listed).sorted() == [], "missing from the list")
        #expect(listed.subtracting(wanted).sorted() == [], "no longer true")
    }

    @Test(
        "lines are counted for no build on Linux",
        arguments: [
            ("#if canImport(Darwin)\na\n\nb\n#else\nc\n#endif\nd\n", 2),
            ("#if canImport(Glibc)\na\n#elseif canImport(Musl)\nb\n#else\nc\n#endif\n", 1),
            ("#if DEBUG\na\n#else\nb\n#endif\n", 0),
            ("#if os(Linux) && canImport(SwiftUI)\na\n#endif\n", 1),
            ("#if !canImport(Darwin)\n#if DEBUG\na\n#endif\n#else\nb\n#endif\n", 1),
        ]
    )
    func linesAreCounted(_ source: String, _ count: Int) { #expect(Self.unbuiltLines(of: source) == count) }
}
