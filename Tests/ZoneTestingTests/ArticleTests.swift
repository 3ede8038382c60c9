import Foundation
import Testing

/// The catalogue's code is what `ArticleCode.swift` compiles and runs.
@Suite struct ArticleTests {
    @Test(arguments: ["ZoneTesting", "WorldsInATest"])
    func everyLineIsCompiled(_ article: String) throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let catalogue = tests.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Sources/ZoneTesting/ZoneTesting.docc/\(article).md")
        let code = Self.plain(
            try String(contentsOf: tests.appendingPathComponent("ArticleCode.swift"), encoding: .utf8)
        )
        let parts = try String(contentsOf: catalogue, encoding: .utf8).components(separatedBy: "```")
        // Every second part stands between two fences.
        let blocks = stride(from: 1, to: parts.count, by: 2).map { parts[$0] }.filter { $0.hasPrefix("swift\n") }
        #expect(!blocks.isEmpty)
        for block in blocks { #expect(code.contains(Self.plain(String(block.dropFirst(6)))), "\(block)") }
    }

    /// Without indentation and empty lines.
    private static func plain(_ text: String) -> String {
        text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter { !$0.isEmpty }
            .joined(separator: "\n")
    }
}
