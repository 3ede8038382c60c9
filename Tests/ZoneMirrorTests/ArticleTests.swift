import Foundation
import Testing

/// Checks that all code in the articles is compiled in `ArticleCode.swift`.
@Suite struct ArticleTests {
    @Test(arguments: ["FromCoreData", "PublicData", "Sharing", "WhenThingsGoWrong"])
    func allCodeOfAnArticleIsCompiled(_ article: String) throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let catalogue = tests.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Sources/ZoneMirror/ZoneMirror.docc/\(article).md")
        let code = Self.plain(
            try String(contentsOf: tests.appendingPathComponent("ArticleCode.swift"), encoding: .utf8)
        )
        let parts = try String(contentsOf: catalogue, encoding: .utf8).components(separatedBy: "```")
        // Every second part is a code block.
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
