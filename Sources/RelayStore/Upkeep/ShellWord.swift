extension String {
    /// As one word of a shell's command line, for what a person is told to type: quoted where it must be.
    package var shellWord: String {
        let isPlain = { (sign: Character) in sign.isLetter || sign.isNumber || "@%+=:,./-_".contains(sign) }
        return !isEmpty && allSatisfy(isPlain) ? self : "'\(replacing("'", with: #"'\''"#))'"
    }
}
