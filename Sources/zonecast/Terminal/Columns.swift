extension StringProtocol {
    /// The number of terminal columns the text takes: two for an East Asian wide character or an emoji.
    var columns: Int { reduce(0) { $0 + $1.columns } }

    /// Returns the longest prefix that fits into this many columns.
    func prefix(columns: Int) -> SubSequence {
        var left = columns
        return prefix { character in
            left -= character.columns
            return left >= 0
        }
    }
}

extension Character {
    /// Terminals use one or two columns per character.
    fileprivate var columns: Int {
        guard let first = unicodeScalars.first, first.value >= 0x1100 else { return 1 }
        let isEmoji = first.properties.isEmojiPresentation || unicodeScalars.contains("\u{FE0F}")
        return isEmoji || Self.wide.contains { $0.contains(first.value) } ? 2 : 1
    }

    /// The blocks that Unicode Annex 11 classifies as wide or full width.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
        0xFE30...0xFE6F, 0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x1_7000...0x1_8CFF, 0x1_AFF0...0x1_B2FF,
        0x2_0000...0x3_FFFD,
    ]
}

extension Int {
    /// `1 asset`, `2 assets`.
    func of(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
