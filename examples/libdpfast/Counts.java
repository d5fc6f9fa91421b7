// SPDX-License-Identifier: Apache-2.0

import java.util.Arrays;
import java.util.Objects;

/** Ten million private counts from Java, by JNI: epsilon 0.1, and a person is in one count. */
public final class Counts {
    static {
        System.loadLibrary("counts_jni"); // counts_jni.c, on -Djava.library.path
    }

    private static native void noise(String scale, long[] counts, long lower, long upper);

    /** Adds noise of the discrete Laplace distribution in place. Throws if there is none, with all at 0. */
    static void add(String scale, long[] counts, long lower, long upper) {
        boolean done = false;
        try {
            noise(Objects.requireNonNull(scale), counts, lower, upper);
            done = true;
        } finally {
            if (!done) {
                Arrays.fill(counts, 0);
            }
        }
    }

    public static void main(String[] arguments) {
        long[] counts = new long[10_000_000];
        for (int i = 0; i < counts.length; i++) {
            counts[i] = i % 1000;
        }
        long begin = System.nanoTime();
        add("1/0.1", counts, Long.MIN_VALUE, Long.MAX_VALUE);
        System.out.printf(java.util.Locale.ROOT, "Java: %.2f ns a count%n", (System.nanoTime() - begin) / 1e7);
    }
}
