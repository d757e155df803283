declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare float @llvm.fma.f32(float, float, float)
define void @jaxwarp_component_by_index(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 8
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %b0.0 = mul i64 4, %g0
  %b0.1 = mul i64 %b0.0, 4
  %b0 = add i64 0, %b0.1
  %b1.0 = mul i64 4, %g1
  %b1 = add i64 %b0, %b1.0
  %b2.0 = mul i64 8, %g2
  %b2.1 = mul i64 %b2.0, 4
  %b2 = add i64 %b1, %b2.1
  %streams = icmp ugt i64 %b2, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v83, %stored78 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = mul i64 %v3, 4
  %v6 = getelementptr float, ptr %p0, i64 %v5
  %v7 = load <4 x float>, ptr %v6, align 4
  %v8 = getelementptr float, ptr %v6, i64 16
  %v9 = load <4 x float>, ptr %v8, align 4
  %v10 = shufflevector <4 x float> %v7, <4 x float> %v9, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v11 = getelementptr float, ptr %v6, i64 4
  %v12 = load <4 x float>, ptr %v11, align 4
  %v13 = getelementptr float, ptr %v6, i64 20
  %v14 = load <4 x float>, ptr %v13, align 4
  %v15 = shufflevector <4 x float> %v12, <4 x float> %v14, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v16 = shufflevector <8 x float> %v10, <8 x float> %v15, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v17 = getelementptr float, ptr %v6, i64 8
  %v18 = load <4 x float>, ptr %v17, align 4
  %v19 = getelementptr float, ptr %v6, i64 24
  %v20 = load <4 x float>, ptr %v19, align 4
  %v21 = shufflevector <4 x float> %v18, <4 x float> %v20, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v22 = getelementptr float, ptr %v6, i64 12
  %v23 = load <4 x float>, ptr %v22, align 4
  %v24 = getelementptr float, ptr %v6, i64 28
  %v25 = load <4 x float>, ptr %v24, align 4
  %v26 = shufflevector <4 x float> %v23, <4 x float> %v25, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v27 = shufflevector <8 x float> %v21, <8 x float> %v26, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v28 = shufflevector <8 x float> %v16, <8 x float> %v27, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v29 = shufflevector <8 x float> %v16, <8 x float> %v27, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v30 = shufflevector <8 x float> %v10, <8 x float> %v15, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v31 = shufflevector <8 x float> %v21, <8 x float> %v26, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v32 = shufflevector <8 x float> %v30, <8 x float> %v31, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v33 = shufflevector <8 x float> %v30, <8 x float> %v31, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v34 = getelementptr i32, ptr %p1, i64 %v3
  %v35 = load <8 x i32>, ptr %v34, align 4
  %v36 = add <8 x i32> %v35, splat (i32 4)
  %v37 = icmp ult <8 x i32> %v36, %v35
  %v38 = select <8 x i1> %v37, <8 x i32> %v36, <8 x i32> %v35
  %v39 = icmp eq <8 x i32> %v38, splat (i32 2)
  %v40 = select <8 x i1> %v39, <8 x float> %v32, <8 x float> %v33
  %v41 = icmp eq <8 x i32> %v38, splat (i32 1)
  %v42 = select <8 x i1> %v41, <8 x float> %v29, <8 x float> %v40
  %v43 = icmp eq <8 x i32> %v38, splat (i32 0)
  %v44 = select <8 x i1> %v43, <8 x float> %v28, <8 x float> %v42
  %v45 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v44, <8 x float> splat (float 0x4000000000000000), <8 x float> %v28)
  %v46 = select <8 x i1> %v43, <8 x float> %v45, <8 x float> %v28
  %v47 = select <8 x i1> %v41, <8 x float> %v45, <8 x float> %v29
  %v48 = select <8 x i1> %v39, <8 x float> %v45, <8 x float> %v32
  %v49 = icmp eq <8 x i32> %v38, splat (i32 3)
  %v50 = select <8 x i1> %v49, <8 x float> %v45, <8 x float> %v33
  %v51 = fadd <8 x float> %v50, splat (float 0x3FF0000000000000)
  %v52 = getelementptr float, ptr %p2, i64 %v5
  %v53 = shufflevector <8 x float> %v46, <8 x float> %v47, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v54 = shufflevector <8 x float> %v48, <8 x float> %v51, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v55 = shufflevector <8 x float> %v46, <8 x float> %v47, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v56 = shufflevector <8 x float> %v48, <8 x float> %v51, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v57 = shufflevector <8 x float> %v53, <8 x float> %v54, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v58 = shufflevector <8 x float> %v55, <8 x float> %v56, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v59 = shufflevector <8 x float> %v53, <8 x float> %v54, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v60 = shufflevector <8 x float> %v55, <8 x float> %v56, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v61 = shufflevector <8 x float> %v57, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v62 = getelementptr float, ptr %v52, i64 4
  %v63 = shufflevector <8 x float> %v58, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v64 = getelementptr float, ptr %v52, i64 8
  %v65 = shufflevector <8 x float> %v59, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v66 = getelementptr float, ptr %v52, i64 12
  %v67 = shufflevector <8 x float> %v60, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v68 = getelementptr float, ptr %v52, i64 16
  %v69 = shufflevector <8 x float> %v57, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v70 = getelementptr float, ptr %v52, i64 20
  %v71 = shufflevector <8 x float> %v58, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v72 = getelementptr float, ptr %v52, i64 24
  %v73 = shufflevector <8 x float> %v59, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v74 = getelementptr float, ptr %v52, i64 28
  %v75 = shufflevector <8 x float> %v60, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v79 = ptrtoint ptr %v52 to i64
  %v80 = and i64 %v79, %lines
  %v81 = icmp eq i64 %v80, 0
  br i1 %v81, label %stream76, label %cache77
stream76:
  store <4 x float> %v61, ptr %v52, align 16, !nontemporal !4
  store <4 x float> %v63, ptr %v62, align 16, !nontemporal !4
  store <4 x float> %v65, ptr %v64, align 16, !nontemporal !4
  store <4 x float> %v67, ptr %v66, align 16, !nontemporal !4
  store <4 x float> %v69, ptr %v68, align 16, !nontemporal !4
  store <4 x float> %v71, ptr %v70, align 16, !nontemporal !4
  store <4 x float> %v73, ptr %v72, align 16, !nontemporal !4
  store <4 x float> %v75, ptr %v74, align 16, !nontemporal !4
  br label %stored78
cache77:
  store <4 x float> %v61, ptr %v52, align 4
  store <4 x float> %v63, ptr %v62, align 4
  store <4 x float> %v65, ptr %v64, align 4
  store <4 x float> %v67, ptr %v66, align 4
  store <4 x float> %v69, ptr %v68, align 4
  store <4 x float> %v71, ptr %v70, align 4
  store <4 x float> %v73, ptr %v72, align 4
  store <4 x float> %v75, ptr %v74, align 4
  br label %stored78
stored78:
  %v82 = add i64 %v3, 8
  %v83 = call i64 asm "", "=r,0"(i64 %v82)
  %v84 = icmp sle i64 %v83, %last_chunk
  br i1 %v84, label %chunk, label %rest, !llvm.loop !1
rest:
  %v85 = phi i64 [ %col_begin, %row ], [ %v83, %stored78 ]
  %v86 = icmp slt i64 %v85, %col_end
  br i1 %v86, label %partial, label %past
partial:
  br label %part
part:
  %v87 = phi i64 [ %v85, %partial ], [ %v120, %part ]
  %v88 = trunc nuw nsw i64 %v87 to i32
  %v89 = mul i64 %v87, 4
  %v90 = getelementptr float, ptr %p0, i64 %v89
  %v91 = load float, ptr %v90, align 4
  %v92 = getelementptr float, ptr %v90, i64 1
  %v93 = load float, ptr %v92, align 4
  %v94 = getelementptr float, ptr %v90, i64 2
  %v95 = load float, ptr %v94, align 4
  %v96 = getelementptr float, ptr %v90, i64 3
  %v97 = load float, ptr %v96, align 4
  %v98 = getelementptr i32, ptr %p1, i64 %v87
  %v99 = load i32, ptr %v98, align 4
  %v100 = add i32 %v99, 4
  %v101 = icmp ult i32 %v100, %v99
  %v102 = select i1 %v101, i32 %v100, i32 %v99
  %v103 = icmp eq i32 %v102, 2
  %v104 = select i1 %v103, float %v95, float %v97
  %v105 = icmp eq i32 %v102, 1
  %v106 = select i1 %v105, float %v93, float %v104
  %v107 = icmp eq i32 %v102, 0
  %v108 = select i1 %v107, float %v91, float %v106
  %v109 = call float @llvm.fma.f32(float %v108, float 0x4000000000000000, float %v91)
  %v110 = select i1 %v107, float %v109, float %v91
  %v111 = select i1 %v105, float %v109, float %v93
  %v112 = select i1 %v103, float %v109, float %v95
  %v113 = icmp eq i32 %v102, 3
  %v114 = select i1 %v113, float %v109, float %v97
  %v115 = fadd float %v114, 0x3FF0000000000000
  %v116 = getelementptr float, ptr %p2, i64 %v89
  store float %v110, ptr %v116, align 4
  %v117 = getelementptr float, ptr %v116, i64 1
  store float %v111, ptr %v117, align 4
  %v118 = getelementptr float, ptr %v116, i64 2
  store float %v112, ptr %v118, align 4
  %v119 = getelementptr float, ptr %v116, i64 3
  store float %v115, ptr %v119, align 4
  %v120 = add i64 %v87, 1
  %v121 = icmp slt i64 %v120, %col_end
  br i1 %v121, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %past
past:
  br label %end
end:
  br i1 %streams, label %fence, label %over
fence:
  fence seq_cst
  br label %over
over:
  ret void
}
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind willreturn }
attributes #3 = { noinline cold nounwind willreturn memory(none) }

!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = !{!"branch_weights", i32 1, i32 2000}
!4 = !{i32 1}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
