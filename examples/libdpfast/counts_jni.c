/* SPDX-License-Identifier: Apache-2.0
 * What Counts.java calls: an array of Java's is pinned while its noise is added. */
#include <dpfast.h>
#include <jni.h>

JNIEXPORT void JNICALL Java_Counts_add(JNIEnv *env, jclass self, jstring scale, jlongArray counts, jlong lower,
                                       jlong upper) {
    const char *const text = scale ? (*env)->GetStringUTFChars(env, scale, NULL) : NULL;
    dpfast_noise *noise = NULL;
    int status = dpfast_discrete_laplace(text, &noise);
    (void)self;
    if (text != NULL)
        (*env)->ReleaseStringUTFChars(env, scale, text);
    if (status == DPFAST_OK && counts != NULL) {
        const jsize n = (*env)->GetArrayLength(env, counts);
        jlong *const at = (*env)->GetPrimitiveArrayCritical(env, counts, NULL);
        status = at ? dpfast_add_int64(noise, n, (int64_t *)at, (int64_t *)at, lower, upper) : DPFAST_MEMORY;
        if (at != NULL)
            (*env)->ReleasePrimitiveArrayCritical(env, counts, at, 0);
    }
    dpfast_free(noise);
    if (status != DPFAST_OK)
        (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/IllegalStateException"), dpfast_message(status));
}
